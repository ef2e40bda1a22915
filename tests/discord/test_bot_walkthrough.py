"""The seed documents' walk-throughs, from end to end."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from discord_loopback import LoopbackDiscord
from fake_github import REPOSITORY, TOKEN, FakeGitHub, served
from fake_modal import FakeModal
from stage import judging, staged
from walkthrough import EMULATED, RUNNERS, older, participant, whole

from fakes import FakeLauncher
from kernelcup.app.machines.machines import list_machines
from kernelcup.cli.wiring import make_local
from kernelcup_github.api import GitHubApi
from kernelcup_github.deploy import write_into
from kernelcup_github.launcher import GitHubLauncher
from kernelcup_harness.protocol import Backend
from kernelcup_modal.launcher import ModalLauncher, make_app

pytestmark = pytest.mark.anyio


@pytest.mark.jobs
async def test_a_participant_gets_from_the_list_to_a_place_on_two_gpus(
    loopback: LoopbackDiscord, sqlite_template: Path, tmp_path: Path
) -> None:
    async with (
        staged(loopback, sqlite_template, tmp_path, EMULATED) as stage,
        judging(stage, {"local": make_local(stage.config)}),
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
        assert "cases passed" in told
        assert "❌" not in told
    ranked = whole(loopback.messages(played.threads["Submit it to the ranking"]))
    assert all(device.name in ranked.replace("\\", "") for device in EMULATED)
    assert list(played.public) == ["Submit it to the ranking"]
    public = whole(loopback.messages(played.public["Submit it to the ranking"]))
    assert public.count("correct; times mean nothing on this device") == 2
    assert "1st place" not in public
    assert re.search(r"\([\d.]+ to [\d.]+\)", ranked)  # the interval
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
    assert judge == {"how_it_is_judged.py", "harness.zip"}
    menu = whole(played.answers["Submit to Modal's GPUs"].messages)
    assert "Submission #1" in menu
    for title, device in (("Submit to Modal's GPUs", "T4"), ("Submit to GitHub's GPUs", "MI300")):
        assert device in whole(loopback.messages(played.threads[title]))
    shown = [message.embeds[0] for message in played.answers["The ranking"].messages]
    assert [embed["title"] for embed in shown] == ["identity_py on T4", "identity_py on MI300"]
    assert all("ada" in embed["description"] for embed in shown)


@pytest.mark.jobs
async def test_submit_modal_and_submit_github_reach_their_launchers(
    loopback: LoopbackDiscord, sqlite_template: Path, tmp_path: Path
) -> None:
    devices = tuple(dataclasses.replace(each, backend=Backend.EMULATED) for each in RUNNERS)
    repository = tmp_path / "repository"
    repository.mkdir()
    write_into(repository)
    modal = FakeModal(carries_out=True)
    make_app(modal, devices[:2], {}).deploy()
    with served(FakeGitHub(repository, carries_out=True)) as github:
        api = GitHubApi(token=TOKEN, repository=REPOSITORY, url=github.url)
        launchers = {
            "modal": ModalLauncher(modal, bundles=tmp_path / "bundles", ask_every_s=0.1),
            "github": GitHubLauncher(api, {"MI300": "box"}, ask_every_s=0.1),
        }
        async with staged(loopback, sqlite_template, tmp_path, devices, with_forum=True) as stage:
            async with judging(stage, launchers):
                _, played = await older(stage)
            machines = {each.name: each for each in list_machines(stage.db, now=loopback.clock.now())}
    modal.join()
    for title, device in (("Submit to Modal's GPUs", "T4"), ("Submit to GitHub's GPUs", "MI300")):
        told = whole(loopback.messages(played.threads[title], seen_by=played.who))
        assert "cases passed" in told, told
        assert device in told
    assert len(modal.calls) == len(github.runs) == 1
    assert not any(machines[name].is_own for name in ("modal-T4", "github-MI300"))
