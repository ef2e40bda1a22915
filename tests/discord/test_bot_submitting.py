"""From the command to the result: what people see of their submissions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from discord_loopback import CannotDo, Channel, Interaction, LoopbackDiscord, Member
from stage import Stage, staged

from builders import (
    SUBMISSION,
    make_board,
    make_case,
    make_device,
    make_report,
    make_stage,
    make_submission,
)
from kernelcup.app.boards.changes import update_board
from kernelcup.app.boards.settings import BoardChanges
from kernelcup.app.machines import dispatchers, machines
from kernelcup.app.queue import lifecycle
from kernelcup.app.rules import pauses
from kernelcup.app.submissions import events
from kernelcup.app.submissions.submissions import get_code, list_views
from kernelcup.bot.api import Api
from kernelcup.domain import OPERATOR, Visibility
from kernelcup.launchers.base import MachineReading
from kernelcup_harness.protocol import (
    CapturedOutput,
    Difference,
    DuelResult,
    Mismatch,
    RunReport,
    StageName,
    Verdict,
)
from zips import BAD, TWO, zipped

pytestmark = pytest.mark.anyio

MENU = "Select GPUs for this leaderboard..."
SCRIPT = ("kernel.py", SUBMISSION.encode())


@pytest.fixture
async def stage(loopback: LoopbackDiscord, sqlite_template: Path, tmp_path: Path) -> AsyncIterator[Stage]:
    """A service with a leaderboard on two devices that nobody serves, and one of Modal's."""
    devices = (make_device(), make_device(name="MI300"), make_device(name="T4", launcher="modal"))
    async with staged(loopback, sqlite_template, tmp_path, devices) as each:
        make_board(each.db, devices=["H100", "MI300"], now=loopback.clock.now())
        yield each


def judge(stage: Stage, report: RunReport | None = None, rival: int | None = None) -> None:
    """Judge what is next in the queue."""
    now = stage.discord.clock.now()
    lease = lifecycle.claim_next(stage.db, owner="test", lease_s=60, devices=["H100", "MI300", "T4"], now=now)
    assert lease is not None
    lifecycle.finish(
        stage.db,
        lease,
        report=report or make_report(),
        harness_hash="f" * 64,
        machine="m",
        now=now,
        rival=rival,
    )


async def submit(stage: Stage, who: Member, kind: str = "ranked", **options: object) -> Interaction:
    """Submit a file."""
    script = options.pop("script", SCRIPT)
    return await stage.discord.slash(who, stage.room, f"leaderboard submit {kind}", options, script)  # type: ignore[arg-type]


def threads(stage: Stage, *, private: bool) -> list[Channel]:
    """Return the threads of one kind."""
    return [each for each in stage.discord.threads(stage.room) if (each.kind == 12) is private]


async def private_thread(stage: Stage) -> Channel:
    """Wait for a private thread."""
    await stage.discord.until(lambda: threads(stage, private=True), "a private thread", 10)
    return threads(stage, private=True)[-1]


async def text_in(stage: Stage, channel: Channel, text: str) -> str:
    """Wait until one of the messages in a channel says something."""

    def look() -> str | None:
        return next((m.text for m in stage.discord.messages(channel) if text in m.text), None)

    return await stage.discord.until(look, f"{text!r} in {channel.name}", 10)


def all_text(stage: Stage, channel: Channel) -> str:
    """Return everything in a channel."""
    return "\n".join(message.text for message in stage.discord.messages(channel))


async def test_a_ranked_submission_is_followed_to_its_place(stage: Stage, ada: Member) -> None:
    asked = await submit(stage, ada, leaderboard_name="double", gpu="H100")
    await asked.wait_text("Follow it in <#")
    assert asked.ephemeral
    thread = await private_thread(stage)
    first = await text_in(stage, thread, "number 1 in the queue")
    assert "`kernel.py`" in first
    judge(stage)
    await text_in(stage, thread, "✅ **H100**: 1 µs")
    await text_in(stage, thread, "### ranked: ")
    await text_in(stage, thread, f"<@{ada.id}> done")
    (public,) = threads(stage, private=False)
    text = all_text(stage, public)
    assert "🥇" in text
    assert "**1st place**" in text
    assert "first successful submission" in text
    assert thread.name.startswith("✅ #1 kernel.py")


async def test_who_will_see_the_code_is_said_with_the_submission(stage: Stage, ada: Member) -> None:
    rule = "The code of ranked results is shown to all who see the leaderboard after the deadline."
    asked = await submit(stage, ada, leaderboard_name="double", gpu="H100")
    await asked.wait_text("Follow it in <#")
    assert "code of ranked" not in asked.messages[0].text  # there is no deadline
    now = stage.discord.clock.now()
    later = BoardChanges(deadline=now + timedelta(days=1))
    update_board(stage.db, OPERATOR, "double", now=now, changes=later)
    again = await submit(stage, ada, leaderboard_name="double", gpu="H100")
    await again.wait_text(rule)
    test = await submit(stage, ada, "test", leaderboard_name="double", gpu="H100")
    await test.wait_text("Follow it in <#")
    assert rule not in test.messages[0].text


async def test_who_lost_the_duel_for_the_first_place_gets_no_medal(stage: Stage, ada: Member) -> None:
    now = stage.discord.clock.now()
    update_board(stage.db, OPERATOR, "double", now=now, changes=BoardChanges(duel=True))
    first = make_submission(stage.db, user="eve", devices=["H100"], now=now)
    judge(stage)
    await submit(stage, ada, leaderboard_name="double", gpu="H100")
    await private_thread(stage)
    lost = DuelResult(ratio=1.03, low=1.02, high=1.04, verdict="slower", blocks=20)
    judge(stage, make_report([900.0], duel=lost), rival=first.id)
    await stage.discord.until(lambda: threads(stage, private=False), "a public thread", 10)
    (public,) = threads(stage, private=False)
    await text_in(stage, public, "it ranks behind the first place, against which it did not win")
    assert "🥇" not in all_text(stage, public)


async def test_the_gpus_are_chosen_in_a_menu(stage: Stage, ada: Member) -> None:
    asked = await submit(stage, ada, leaderboard_name="double")
    chosen = await asked.choose(MENU, ["H100", "MI300"])
    await stage.discord.until(lambda: "Follow it in" in asked.messages[0].text, "an answer", 10)
    assert chosen.acknowledged
    thread = await private_thread(stage)
    await text_in(stage, thread, "**MI300**")
    for _ in range(2):
        judge(stage)
    await text_in(stage, thread, "done:")
    assert len(threads(stage, private=False)) == 1


async def test_the_menu_of_gpus_says_which_are_not_up(stage: Stage, ada: Member) -> None:
    now = stage.discord.clock.now()
    served = [make_device(), make_device(name="MI300")]
    dispatchers.check_in(stage.db, owner="me", devices=served, started_at=now, draining=False, now=now)
    for name, device, seen_at in (("a", "H100", now - timedelta(hours=1)), ("b", "MI300", now)):
        found = [MachineReading(name=name, slots={device: 1})]
        machines.note_seen(stage.db, found, launcher="fake", is_own=True, now=seen_at)
    asked = await submit(stage, ada, leaderboard_name="double")
    await asked.wait_text("on which GPUs?")
    first, second = asked.messages[0].controls[0]["options"]
    assert (first["value"], first.get("description")) == ("MI300", None)
    assert second["description"].startswith("no H100 is up since")


async def test_more_gpus_than_a_menu_takes_come_in_pages(
    loopback: LoopbackDiscord, sqlite_template: Path, tmp_path: Path
) -> None:
    names = [f"GPU-{number:02}" for number in range(30)]
    devices = tuple(make_device(name=name) for name in names)
    async with staged(loopback, sqlite_template, tmp_path, devices) as stage:
        stage.board("double", devices=names)
        asked = await submit(stage, stage.guild.add_member("ada"), leaderboard_name="double")
        await asked.choose(f"{MENU} (1/2)", ["GPU-24", "GPU-03"])
        await asked.press("▶")
        await asked.choose(f"{MENU} (2/2)", ["GPU-28"])
        await asked.press("◀")
        (message,) = asked.messages

        def chosen() -> list[str]:
            return [each["value"] for each in message.controls[0]["options"] if each.get("default")]

        await stage.discord.until(lambda: chosen() == ["GPU-03", "GPU-24"], "what was chosen before", 10)
        await asked.choose(f"{MENU} (1/2)", ["GPU-03"])
        await asked.press("Done: 2 chosen")
        await asked.wait_text("Follow it in", 10)
        (view,) = list_views(stage.db)
        assert view.devices == ("GPU-03", "GPU-28")


async def test_a_file_says_itself_where_it_belongs(stage: Stage, ada: Member) -> None:
    code = f"#!POPCORN leaderboard double\n#!POPCORN gpus MI300\n{SUBMISSION}"
    asked = await submit(stage, ada, "test", script=("k.py", code.encode()))
    await asked.wait_text("Follow it in")
    (view,) = list_views(stage.db)
    assert (view.mode.value, view.devices) == ("test", ("MI300",))


async def test_a_leaderboard_that_nobody_named_is_chosen_in_a_menu(stage: Stage, ada: Member) -> None:
    make_board(stage.db, name="triple", devices=["H100"], now=stage.discord.clock.now())
    asked = await submit(stage, ada, "benchmark")
    await asked.choose("Select a leaderboard...", ["triple"])
    await stage.discord.until(lambda: "Follow it in" in asked.messages[0].text, "an answer", 10)
    (view,) = list_views(stage.db)
    assert (view.leaderboard, view.mode.value) == ("triple", "benchmark")


async def test_what_cannot_be_submitted_is_refused_in_words(stage: Stage, ada: Member) -> None:
    for options, text in [
        ({"leaderboard_name": "nothing"}, "no leaderboard"),
        ({"leaderboard_name": "double", "gpu": "B200"}, "has no device"),
        ({"leaderboard_name": "double", "gpu": "H100", "script": ("k.txt", b"x")}, "ends in"),
        ({"leaderboard_name": "double", "gpu": "H100", "script": ("k.py", b"")}, "is empty"),
        ({"leaderboard_name": "double", "gpu": "H100", "script": ("k.py", b"\xff\xfe\xfa")}, "UTF"),
        ({"leaderboard_name": "double", "gpu": "H100", "script": ("k.py", b"x" * 1_050_000)}, "bytes"),
        ({"leaderboard_name": "double", "gpu": "H100", "script": ("k.py", b"x" * 2_050_000)}, "too large"),
    ]:
        asked = await submit(stage, ada, **options)
        message = await asked.wait_text("❌")
        assert text in message.text.replace("\\", "")
        assert asked.ephemeral
        assert not list_views(stage.db)
        assert not stage.bot.parts.memory.open_ones()


async def test_a_closed_leaderboard_is_not_there_for_others(stage: Stage, ada: Member) -> None:
    make_board(
        stage.db, name="secret", visibility=Visibility.CLOSED, devices=["H100"], now=stage.discord.clock.now()
    )
    asked = await submit(stage, ada, leaderboard_name="secret")
    await asked.wait_text("no leaderboard")
    offered = await stage.discord.autocomplete(
        ada, stage.room, "leaderboard submit ranked", "leaderboard_name", ""
    )
    assert offered == ["double"]


async def test_elsewhere_there_is_a_hint(stage: Stage, ada: Member) -> None:
    general = stage.guild.channel("general")
    for command, script in (("ranked", SCRIPT), ("code", None)):
        options = {"mode": "test"} if script is None else {}
        asked = await stage.discord.slash(ada, general, f"leaderboard submit {command}", options, script)
        await asked.wait_text(f"Submit in <#{stage.room.id}>")
        assert asked.ephemeral


async def test_code_is_pasted_into_a_form(stage: Stage, ada: Member) -> None:
    options = {"mode": "test", "leaderboard_name": "double", "gpu": "H100"}
    asked = await stage.discord.slash(ada, stage.room, "leaderboard submit code", options)
    filled = await asked.fill({"code": f"```python\n{SUBMISSION}\n```"})
    await filled.wait_text("Follow it in")
    (view,) = list_views(stage.db)
    assert view.file_name == "submission.py"


async def test_the_older_names_restrict_the_gpus_to_one_runner(stage: Stage, ada: Member) -> None:
    make_board(stage.db, name="triple", devices=["H100", "T4"], now=stage.discord.clock.now())
    asked = await submit(stage, ada, "modal", leaderboard_name="triple")
    await asked.wait_text("Follow it in")
    (view,) = list_views(stage.db)
    assert (view.devices, view.mode.value) == (("T4",), "leaderboard")
    asked = await submit(stage, ada, "github", leaderboard_name="triple")
    await asked.wait_text("has no GPU of github")


async def test_a_wrong_answer_is_explained_and_not_made_public(stage: Stage, ada: Member) -> None:
    asked = await submit(stage, ada, leaderboard_name="double", gpu="H100")
    await asked.wait_text("Follow it in")
    mismatch = Mismatch(
        where="output",
        wrong=3,
        total=9,
        largest_error=0.5,
        first=[Difference(position=[2], expected="1.0", actual="@everyone")],
        rule="|a - e| > 1e-5",
    )
    bad = make_case(None, verdict=Verdict.WRONG_ANSWER, mismatch=mismatch, message="wrong")
    stages = [make_stage([bad], name=StageName.TEST, verdict=Verdict.WRONG_ANSWER)]
    report = make_report(
        verdict=Verdict.WRONG_ANSWER,
        stage=StageName.TEST,
        stages=stages,
        stderr=CapturedOutput(text="x" * 9000 + "\n```\nend", total_bytes=9008),
    )
    thread = await private_thread(stage)
    judge(stage, report)
    await text_in(stage, thread, "done:")
    text = all_text(stage, thread)
    assert "3 of 9 elements are wrong, off by 0.5 at most" in text
    assert "❌ H100: wrong answer in the test stage" in text
    messages = stage.discord.messages(thread)
    assert [f.filename for m in messages for f in m.attachments] == ["stderr.txt"]
    assert all(message.text.count("```") % 2 == 0 for message in messages)
    assert {ping for message in messages for ping in message.pings} <= {ada.id}
    assert not threads(stage, private=False)


async def test_what_people_name_does_nothing(stage: Stage, ada: Member) -> None:
    name = "`@everyone`_**x**_<@1>_[evil.example](x).py"
    asked = await submit(
        stage, ada, leaderboard_name="double", gpu="H100", script=(name, SUBMISSION.encode())
    )
    await asked.wait_text("Follow it in")
    thread = await private_thread(stage)
    judge(stage)
    await text_in(stage, thread, "done:")
    (public,) = threads(stage, private=False)
    for text in (all_text(stage, public), all_text(stage, thread), asked.messages[0].text):
        assert "`ˋ@everyoneˋ_**x**_<@1>_[evil.example](x).py`" in text
        outside = "".join(text.split("`")[::2])
        assert "@everyone" not in outside
        assert "evil.example" not in outside


async def test_on_a_pseudonymous_leaderboard_nothing_is_public(stage: Stage, ada: Member) -> None:
    now = stage.discord.clock.now()
    make_board(stage.db, name="class", devices=["H100"], pseudonymous=True, now=now)
    asked = await submit(stage, ada, leaderboard_name="class")
    await asked.wait_text("Follow it in")
    judge(stage)
    thread = await private_thread(stage)
    await text_in(stage, thread, "done:")
    assert not threads(stage, private=False)
    assert not any("place" in message.text for message in stage.discord.messages(stage.room))


async def test_a_message_is_edited_no_more_often_than_agreed(stage: Stage, ada: Member) -> None:
    object.__setattr__(stage.bot.parts.config, "edit_every_s", 1.0)
    asked = await submit(stage, ada, leaderboard_name="double", gpu="H100")
    await asked.wait_text("Follow it in")
    thread = await private_thread(stage)
    now = stage.discord.clock.now()
    with stage.db.write() as session:
        for case in range(50):
            told = {"stage": "test", "case": case, "cases": 50}
            events.record(session, 1, "progress", told, 1, now)
    judge(stage)
    await text_in(stage, thread, "done:")
    edits = [r for r in stage.discord.requests if r.method == "PATCH" and "/messages/" in r.path]
    assert len(edits) <= 3


async def test_commands_are_acknowledged_before_the_server_answers(stage: Stage, ada: Member) -> None:
    stage.bot.parts.api = Api("http://127.0.0.1:1", "none")
    asked = await submit(stage, ada, leaderboard_name="double", gpu="H100")
    await asked.wait_acknowledged()
    stage.discord.advance(4)
    assert not asked.failed


async def test_a_token_that_the_server_does_not_take_is_not_the_persons_fault(
    stage: Stage, ada: Member
) -> None:
    stage.bot.parts.api = Api(stage.bot_config.api_url, "kc_wrong")
    asked = await submit(stage, ada, leaderboard_name="double", gpu="H100")
    message = await asked.wait_text("The operator must check it")
    assert "sign in" not in message.text
    assert not stage.bot.parts.memory.open_ones()


async def test_a_menu_that_nobody_uses_says_that_nothing_was_submitted(
    stage: Stage, ada: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelcup.bot.messages.dialogs.ANSWER_IN_S", 0.05)
    asked = await submit(stage, ada, leaderboard_name="double")
    message = await asked.wait_text("Nothing was chosen, so nothing was submitted.", 10)
    assert not message.controls
    assert not list_views(stage.db)


async def test_a_refusal_takes_the_menus_place(stage: Stage, ada: Member) -> None:
    asked = await submit(stage, ada, leaderboard_name="double")
    await asked.wait_text("on which GPUs?")
    now = stage.discord.clock.now()
    pauses.pause(stage.db, OPERATOR, scope="service", reason="maintenance", now=now)
    await asked.choose(MENU, ["H100"])
    message = await asked.wait_text("maintenance", 10)
    assert message.text.startswith("❌")
    assert not message.controls
    assert asked.messages == [message]


async def test_nothing_chosen_means_nothing_submitted(stage: Stage, ada: Member) -> None:
    asked = await submit(stage, ada, leaderboard_name="double")
    await asked.wait_text("on which GPUs?")
    bob = stage.guild.add_member("bob")
    with pytest.raises(CannotDo):
        await asked.choose(MENU, ["H100"], by=bob)
    assert not list_views(stage.db)


async def test_several_attachments_are_one_submission(stage: Stage, ada: Member) -> None:
    (first, second) = ((name, text.encode()) for name, text in TWO.items())
    asked = await submit(stage, ada, script=first, second=second, leaderboard_name="double", gpu="H100")
    await asked.wait_text("Follow it in <#")
    assert get_code(stage.db, 1).files == TWO


async def test_a_zip_is_taken_and_sent_back_as_one(stage: Stage, ada: Member) -> None:
    script = ("mine.zip", zipped(dict(TWO)))
    asked = await submit(stage, ada, script=script, leaderboard_name="double", gpu="H100")
    await asked.wait_text("Follow it in <#")
    assert get_code(stage.db, 1).files == TWO
    shown = await stage.discord.slash(ada, stage.room, "leaderboard get-submission", {"submission_id": 1})
    await shown.wait_text("#1")
    files = [f.filename for m in shown.messages for f in m.attachments]
    assert files == ["submission-1.zip"]


BAD_WORDS = {"out of the folder": "is not plain", "a bomb": "unpacks to more than", "no entry": "Which file"}


async def test_a_bad_zip_is_refused_with_the_reason(stage: Stage, ada: Member) -> None:
    for name in BAD_WORDS:
        script = ("mine.zip", BAD[name][0])
        asked = await submit(stage, ada, script=script, leaderboard_name="double", gpu="H100")
        await asked.wait_text(BAD_WORDS[name])
        assert list_views(stage.db) == []
