"""What people look at: leaderboards, rankings, tasks, their submissions; and linking."""

from __future__ import annotations

from datetime import timedelta

import pytest
from discord_loopback import Interaction, Member
from stage import Stage

from builders import SUBMISSION, make_actor, make_board, make_report, make_submission, make_task
from kernelcup.app.access import HERE
from kernelcup.app.people import account_linking, accounts
from kernelcup.app.queue import lifecycle
from kernelcup.app.results.freezes import freeze
from kernelcup.app.results.reviews import quarantine
from kernelcup.app.submissions.submissions import show_submission
from kernelcup.domain import OPERATOR, Visibility

pytestmark = pytest.mark.anyio


@pytest.fixture
def stage(stage: Stage) -> Stage:
    """A service with a leaderboard that has a template."""
    task = make_task(templates={"Python": SUBMISSION, "Triton": SUBMISSION}, description="Do *it* @here.")
    make_board(stage.db, task=task, devices=["H100", "MI300"], now=stage.discord.clock.now())
    return stage


async def ask(stage: Stage, who: Member, command: str, **options: object) -> Interaction:
    """Give a command."""
    return await stage.discord.slash(who, stage.room, command, options)


def judge(stage: Stage, time_ns: float = 1000.0) -> None:
    """Judge what is next in the queue."""
    now = stage.discord.clock.now()
    lease = lifecycle.claim_next(stage.db, owner="test", lease_s=60, devices=["H100", "MI300"], now=now)
    assert lease is not None
    report = make_report([time_ns])
    lifecycle.finish(stage.db, lease, report=report, harness_hash="f" * 64, machine="m", now=now)


def files_of(asked: Interaction) -> dict[str, str]:
    """Return the files of an answer."""
    return {f.filename: f.data.decode("utf-8", "replace") for m in asked.messages for f in m.attachments}


async def test_leaderboards_are_listed_in_pages(stage: Stage, ada: Member) -> None:
    now = stage.discord.clock.now()
    for number in range(6):
        make_board(stage.db, name=f"board-{number}", deadline=now + timedelta(days=number + 1), now=now)
    make_board(stage.db, name="secret", visibility=Visibility.CLOSED, now=now)
    asked = await ask(stage, ada, "leaderboard list")
    first = await asked.wait_text("Page 1/2")
    assert "secret" not in first.text
    await asked.press("▶")
    await asked.wait_text("Page 2/2")
    assert asked.ephemeral


async def test_a_ranking_is_shown_for_each_chosen_gpu(stage: Stage, ada: Member) -> None:
    make_submission(stage.db, devices=["H100"], now=stage.discord.clock.now())
    judge(stage)
    asked = await ask(stage, ada, "leaderboard show", leaderboard_name="double")
    chosen = await asked.choose("Select GPUs...", ["H100", "MI300"])
    await chosen.wait_text("1 µs")
    await chosen.wait_text("No one is ranked")


async def test_a_freeze_is_told_with_rankings_and_own_places(stage: Stage, ada: Member) -> None:
    now = stage.discord.clock.now()
    freeze(stage.db, OPERATOR, "double", now, now=now)
    told = f"Frozen since {now:%Y-%m-%d %H:%M:%S} UTC;"
    asked = await ask(stage, ada, "leaderboard show", leaderboard_name="double", gpu="H100")
    shown = await asked.wait_response(15)
    assert shown.embeds[0]["footer"]["text"].startswith(f"{told} later results are not shown until the end.")
    script = ("k.py", SUBMISSION.encode())
    options = {"leaderboard_name": "double", "gpu": "H100"}
    asked = await stage.discord.slash(ada, stage.room, "leaderboard submit ranked", options, script)
    await asked.wait_text("Follow it in")
    asked = await ask(stage, ada, "leaderboard show-personal", leaderboard_name="double")
    await asked.wait_text(f"{told} yours is not shown until the end.")


async def test_a_ranking_is_drawn_when_asked_for(stage: Stage, ada: Member) -> None:
    asked = await ask(stage, ada, "leaderboard show", leaderboard_name="double", gpu="h100", image=True)
    message = await asked.wait_response()
    (file,) = message.attachments
    assert file.data.startswith(b"\x89PNG")


async def test_a_long_ranking_has_pages(stage: Stage, ada: Member) -> None:
    for number in range(11):
        make_actor(stage.db, f"user-{number}")
        make_submission(stage.db, user=f"user-{number}", devices=["H100"], now=stage.discord.clock.now())
        judge(stage, 1000.0 + number)
    asked = await ask(stage, ada, "leaderboard show", leaderboard_name="double", gpu="H100")
    await asked.wait_text("user-9")
    await asked.press("▶")
    await asked.wait_text("user-10")


async def test_what_is_not_there_is_said_so(stage: Stage, ada: Member) -> None:
    for command, options, text in [
        ("show", {"leaderboard_name": "nothing"}, "no leaderboard"),
        ("show", {"leaderboard_name": "double", "gpu": "B200"}, "has no GPU B200"),
        ("show-personal", {"leaderboard_name": "nothing"}, "no leaderboard"),
        ("show-personal", {"leaderboard_name": "double"}, "not submitted anything"),
        ("task", {"leaderboard_name": "nothing"}, "no leaderboard"),
        ("reference-code", {"leaderboard_name": "nothing"}, "no leaderboard"),
        ("template", {"leaderboard_name": "double", "lang": "Rust"}, "no template for"),
        ("get-submission", {"submission_id": 99}, "no submission"),
        ("cancel", {"submission_id": 99}, "no submission"),
    ]:
        asked = await ask(stage, ada, f"leaderboard {command}", **options)
        message = await asked.wait_response()
        assert text in message.text.replace("\\", "")
        assert asked.ephemeral


async def test_a_task_its_reference_its_judge_and_a_template_are_files(stage: Stage, ada: Member) -> None:
    asked = await ask(stage, ada, "leaderboard task", leaderboard_name="double")
    message = await asked.wait_text("Task")
    assert "reference.py" in files_of(asked)
    assert "@here" not in message.text
    asked = await ask(stage, ada, "leaderboard reference-code", leaderboard_name="double")
    await asked.wait_response()
    assert "ref_kernel" in files_of(asked)["double_reference.py"]
    asked = await ask(stage, ada, "leaderboard eval-code", language="python")
    await asked.wait_response()
    await stage.discord.until(lambda: "harness.zip" in files_of(asked), "files", 10)
    assert "def _call" in files_of(asked)["how_it_is_judged.py"]
    asked = await ask(stage, ada, "leaderboard template", leaderboard_name="double", lang="triton")
    await asked.wait_response()
    text = files_of(asked)["double.py"]
    assert text.startswith("#!POPCORN leaderboard double\n")
    assert text.endswith(SUBMISSION)


async def test_what_judges_cuda_is_a_file_without_any_leaderboard(stage: Stage, ada: Member) -> None:
    asked = await ask(stage, ada, "leaderboard eval-code", language="cuda")
    await asked.wait_response()
    await stage.discord.until(lambda: "harness.zip" in files_of(asked), "files", 10)
    assert "kernelcup_harness/submission/cuda/library.py" in files_of(asked)["how_it_is_judged.py"]


async def test_a_task_is_headed_by_its_leaderboard(stage: Stage, ada: Member) -> None:
    stage.board("autumn")
    asked = await ask(stage, ada, "leaderboard task", leaderboard_name="autumn")
    message = await asked.wait_text("Task")
    assert message.text.startswith("### Task of `autumn`\n")


async def test_templates_depend_on_the_leaderboard(stage: Stage, ada: Member) -> None:
    offered = await stage.discord.autocomplete(
        ada, stage.room, "leaderboard template", "lang", "tri", {"leaderboard_name": "double"}
    )
    assert offered == ["Triton"]
    offered = await stage.discord.autocomplete(
        ada,
        stage.room,
        "leaderboard show",
        "gpu",
        "H100, m",
        {"leaderboard_name": "double"},
    )
    assert offered == ["H100, MI300"]


async def test_somebody_sees_and_cancels_their_own_submission(stage: Stage, ada: Member) -> None:
    options = {"leaderboard_name": "double", "gpu": "H100"}
    script = ("k.py", SUBMISSION.encode())
    asked = await stage.discord.slash(ada, stage.room, "leaderboard submit ranked", options, script)
    await asked.wait_text("Follow it in")
    offered = await stage.discord.autocomplete(ada, stage.room, "leaderboard cancel", "submission_id")
    assert offered == [1]
    asked = await ask(stage, ada, "leaderboard get-submission", submission_id=1)
    await asked.wait_text("Submission #1")
    assert files_of(asked)["k.py"] == SUBMISSION
    other = await ask(stage, stage.guild.add_member("bob"), "leaderboard get-submission", submission_id=1)
    await other.wait_text("❌")
    asked = await ask(stage, ada, "leaderboard cancel", submission_id=1)
    await asked.wait_text("Cancelled 1 job of submission #1")
    assert show_submission(stage.db, 1).ended
    asked = await ask(stage, ada, "leaderboard show-personal", leaderboard_name="double")
    await asked.wait_text("cancelled")


async def test_own_result_that_a_review_keeps_aside_is_not_listed_with_its_time(
    stage: Stage, ada: Member
) -> None:
    script, options = ("k.py", SUBMISSION.encode()), {"leaderboard_name": "double", "gpu": "H100"}
    asked = await stage.discord.slash(ada, stage.room, "leaderboard submit ranked", options, script)
    await asked.wait_text("Follow it in")
    judge(stage)
    asked = await ask(stage, ada, "leaderboard show-personal", leaderboard_name="double")
    await asked.wait_text("ranked on H100: **1 µs**")
    job, now = show_submission(stage.db, 1).jobs[0], stage.discord.clock.now()
    quarantine(stage.db, OPERATOR, job.id, reason="odd", now=now)
    asked = await ask(stage, ada, "leaderboard show-personal", leaderboard_name="double")
    await asked.wait_text("ranked on H100: quarantined")


async def test_there_is_help(stage: Stage, ada: Member) -> None:
    asked = await ask(stage, ada, "leaderboard help")
    message = await asked.wait_response()
    assert f"<#{stage.room.id}>" in message.text
    assert (await (await ask(stage, ada, "ping")).wait_response()).text == "pong"


async def test_accounts_are_joined_by_a_code_and_parted_again(stage: Stage, ada: Member) -> None:
    now = stage.discord.clock.now()
    web = accounts.sign_in(stage.db, provider="github", subject="7", login="lovelace", now=now)
    actor = make_actor(stage.db, "lovelace-web")
    assert actor.user_id is not None
    user = accounts.get_user(stage.db, OPERATOR, "lovelace")
    assert user.id == web
    made = account_linking.make_link_code(stage.db, _actor(user), entry=HERE, now=now)
    wrong = await ask(stage, ada, "link", code="BBBB-BBBB")
    await wrong.wait_text("unknown, expired or used")
    asked = await ask(stage, ada, "link", code=made.code.lower())
    await asked.wait_text("From now on you are `lovelace` here.")
    again = await ask(stage, stage.guild.add_member("bob"), "link", code=made.code)
    await again.wait_text("unknown, expired or used")
    asked = await ask(stage, ada, "unlink")
    await asked.wait_text("no longer linked")
    asked = await ask(stage, ada, "unlink")
    await asked.wait_text("only way")


def _actor(user: accounts.User):  # type: ignore[no-untyped-def]
    from kernelcup.app.people.tokens import scopes_of
    from kernelcup.domain import Actor

    return Actor(user_id=user.id, name=user.name, role=user.role, scopes=scopes_of(user.role))


async def test_a_silent_server_is_answered_for_in_time(stage: Stage, ada: Member) -> None:
    from kernelcup.bot.api import Api

    stage.bot.parts.api = Api("http://127.0.0.1:1", "none")
    assert await stage.discord.autocomplete(ada, stage.room, "leaderboard task", "leaderboard_name") == []
    asked = await ask(stage, ada, "leaderboard list")
    await asked.wait_acknowledged(2)
    asked = await ask(stage, ada, "ping")
    await asked.wait_text("does not answer now", 10)
