"""The seed documents' walk-throughs, from end to end."""

from __future__ import annotations

from pathlib import Path

import pytest
from loopback import LoopbackDiscord
from stage import judging, staged
from walkthrough import EMULATED, RUNNERS, older, participant, whole

from fakes import FakeLauncher
from kernelcup.cli.wiring import make_launcher

pytestmark = pytest.mark.anyio


async def test_a_participant_gets_from_the_list_to_a_place_on_two_gpus(
    loopback: LoopbackDiscord, sqlite_template: Path, tmp_path: Path
) -> None:
    async with (
        staged(loopback, sqlite_template, tmp_path, EMULATED) as stage,
        judging(stage, {"local": make_launcher(stage.config)}),
    ):
        played = await participant(stage)
    files = {
        name
        for title in ("Get the task", "Get a template")
        for message in played.answers[title].messages
        for name in message.files
    }
    assert {"reference.py", "task.py", "identity_py.py"} <= files
    for title in ("Test a file", "Benchmark it", "Submit it to the ranking"):
        told = whole(loopback.messages(played.threads[title], seen_by=played.who))
        assert "successful" in told
        assert "❌" not in told
    ranked = whole(loopback.messages(played.threads["Submit it to the ranking"]))
    assert all(device.name in ranked.replace("\\", "") for device in EMULATED)
    assert list(played.public) == ["Submit it to the ranking"]
    public = whole(loopback.messages(played.public["Submit it to the ranking"]))
    assert public.count("1st place") == 2
    assert "95 %: " in ranked
    personal = whole(played.answers["Look at your own submissions"].messages)
    assert personal.count("rank 1") == 2
    assert all(asked.ephemeral for asked in played.answers.values())
    assert not any(asked.failed for asked in played.answers.values())


async def test_the_older_generation_of_commands_works_too(
    loopback: LoopbackDiscord, sqlite_template: Path, tmp_path: Path
) -> None:
    async with staged(loopback, sqlite_template, tmp_path, RUNNERS, with_forum=True) as stage:
        async with judging(stage, {"modal": FakeLauncher(), "github": FakeLauncher()}):
            _, played = await older(stage)
        await stage.post("identity_py")
    reference = played.answers["Get the reference code"].messages[-1].files
    assert list(reference) == ["identity_py_reference.py"]
    judge = {name for message in played.answers["See what judges"].messages for name in message.files}
    assert {"judge_main.py", "contestant_main.py", "judge_checks.py"} <= judge
    menu = whole(played.answers["Submit to Modal's GPUs"].messages)
    assert "Submission #1" in menu
    for title, device in (("Submit to Modal's GPUs", "T4"), ("Submit to GitHub's GPUs", "MI300")):
        assert device in whole(loopback.messages(played.threads[title]))
    shown = [message.embeds[0] for message in played.answers["The ranking"].messages]
    assert [embed["title"] for embed in shown] == ["identity_py on T4", "identity_py on MI300"]
    assert all("ada" in embed["description"] for embed in shown)
