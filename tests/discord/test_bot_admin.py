"""Commands of those who run leaderboards and the service."""

from __future__ import annotations

from typing import Any

import pytest
from discord_loopback import Interaction, Member
from stage import Stage, connected, judging

from builders import make_submission
from fakes import FakeLauncher
from kernelcup.app.boards.problem_sync import Skipped, SyncResult
from kernelcup.app.people.accounts import get_user
from kernelcup.app.results.rejudge import RejudgePlan
from kernelcup.app.results.reviews import open_reviews, quarantine
from kernelcup.app.rules.limits import list_limits
from kernelcup.app.rules.pauses import list_pauses
from kernelcup.app.submissions.submissions import show_submission
from kernelcup.bot.commands import admin, create_board
from kernelcup.domain import OPERATOR, JobState, Visibility
from kernelcup.errors import NotFound

pytestmark = pytest.mark.anyio


async def ask(stage: Stage, who: Member, command: str, **options: Any) -> Interaction:
    """Give a command and wait for the answer, which only they see."""
    asked = await stage.discord.slash(who, stage.room, command, options)
    await asked.wait_response(15)
    assert asked.ephemeral
    return asked


async def judged(stage: Stage) -> int:
    """Store a submission that was judged, and return its number."""
    stage.board("double")
    submission = make_submission(stage.db, board="double", now=stage.discord.clock.now())
    async with judging(stage, {"fake": FakeLauncher()}):
        await stage.discord.until(lambda: show_submission(stage.db, submission.id).ended, "the verdict", 15)
    return submission.id


async def test_a_submission_is_shown_before_an_admin_deletes_it(stage: Stage) -> None:
    number = await judged(stage)
    root, alice = stage.admin(), stage.guild.add_member("alice")
    seen = await ask(stage, root, "admin get-submission", submission_id=number)
    assert any("custom_kernel" in data.decode() for data in seen.messages[0].files.values())
    refused = await ask(stage, alice, "admin delete-submission", submission=number)
    assert "❌" in refused.messages[0].text
    assert not refused.messages[0].controls
    kept = await ask(stage, root, "admin delete-submission", submission=number)
    assert any("custom_kernel" in data.decode() for data in kept.messages[0].files.values())
    await (await kept.press("Keep")).wait_text("stays")
    assert show_submission(stage.db, number).ended
    asked = await ask(stage, root, "admin delete-submission", submission=number)
    await (await asked.press("Delete")).wait_text("was deleted")
    with pytest.raises(NotFound):
        show_submission(stage.db, number)


async def test_a_rejudge_is_shown_first_and_done_on_a_yes(stage: Stage) -> None:
    await judged(stage)
    root = stage.admin()
    left = await ask(stage, root, "admin rejudge", leaderboard_name="double")
    assert "**1 job** of 1 submission would be judged again." in left.messages[0].text
    await (await left.press("Cancel")).wait_text("Nothing was changed")
    assert show_submission(stage.db, 1).jobs[0].state is JobState.DONE
    asked = await ask(stage, root, "admin rejudge", submission=1)
    await (await asked.press("Judge 1 again")).wait_text("is judged again")
    assert show_submission(stage.db, 1).jobs[0].state is JobState.QUEUED
    again = await ask(stage, root, "admin rejudge", submission=1)
    assert "nothing to judge again" in again.messages[0].text


async def test_a_rejudge_of_nothing_definite_is_refused(stage: Stage) -> None:
    root = stage.admin()
    for options in (
        {},
        {"submission": 1, "leaderboard_name": "double"},
        {"submission": 1, "only_best": True},
    ):
        asked = await ask(stage, root, "admin rejudge", **options)
        assert "❌" in asked.messages[0].text


async def test_somebody_is_banned_and_let_in_again(stage: Stage) -> None:
    alice, root = stage.guild.add_member("alice"), stage.admin()
    asked = await ask(stage, root, "admin ban", reason="spam @everyone", user=alice)
    assert "is banned" in asked.messages[0].text
    assert not asked.messages[0].pings
    assert get_user(stage.db, OPERATOR, stage.account(alice)).ban_reason == "spam @everyone"
    await ask(stage, root, "admin unban", name=stage.account(alice))
    assert get_user(stage.db, OPERATOR, stage.account(alice)).banned_at is None
    nobody = await ask(stage, root, "admin ban", reason="spam")
    assert "❌" in nobody.messages[0].text
    refused = await ask(stage, alice, "admin ban", reason="no", name="root")
    assert "❌" in refused.messages[0].text


async def test_limits_are_added_shown_and_removed(stage: Stage) -> None:
    stage.board("double")
    root = stage.admin()
    wrong = await ask(stage, root, "admin limits add", limit="many")
    assert "❌" in wrong.messages[0].text
    added = await ask(stage, root, "admin limits add", limit="10/hour", leaderboard_name="double", gpu="H100")
    assert "10 submissions per hour to double on H100, for each user" in added.messages[0].text
    shown = await ask(stage, root, "admin limits show")
    (limit,) = list_limits(stage.db, OPERATOR)
    assert f"**{limit.id}** 10 submissions" in shown.messages[0].text
    await ask(stage, root, "admin limits remove", number=limit.id)
    assert list_limits(stage.db, OPERATOR) == []


async def test_the_creator_of_a_closed_leaderboard_invites_people(stage: Stage) -> None:
    grace = stage.creator()
    stage.board("secret", creator=stage.account(grace), visibility=Visibility.CLOSED)
    made = await ask(stage, grace, "admin invites make", leaderboard_name="secret", count=2, label="class")
    codes = made.messages[0].text.split("```")[1].split()
    assert len(codes) == 2
    listed = await ask(stage, grace, "admin invites list", leaderboard_name="secret")
    assert all(code in listed.messages[0].text for code in codes)
    gone = await ask(stage, grace, "admin invites revoke", code=codes[0])
    assert "is revoked" in gone.messages[0].text
    alice = stage.guild.add_member("alice")
    refused = await ask(stage, alice, "admin invites make", leaderboard_name="secret")
    assert "There is no leaderboard" in refused.messages[0].text.replace("\\", "")
    joined = await ask(stage, alice, "leaderboard join", code=codes[1])
    assert "`secret`" in joined.messages[0].text
    assert "secret" in (await ask(stage, alice, "leaderboard list")).messages[0].text
    worthless = await ask(stage, stage.guild.add_member("bob"), "leaderboard join", code=codes[0])
    assert "❌" in worthless.messages[0].text
    many = await ask(stage, grace, "admin invites make", leaderboard_name="secret", count=60)
    ((_, codes_file),) = many.messages[0].files.items()
    assert len(codes_file.split()) == 60


async def test_a_closed_leaderboard_is_seen_by_its_members_only(stage: Stage) -> None:
    grace, alice = stage.creator(), stage.guild.add_member("alice")
    stage.board("secret", creator=stage.account(grace), visibility=Visibility.CLOSED)
    for who, seen in ((grace, True), (alice, False)):
        asked = await ask(stage, who, "leaderboard list")
        assert ("secret" in asked.messages[0].text) is seen
        offered = await stage.discord.autocomplete(
            who, stage.room, "leaderboard show", "leaderboard_name", "sec"
        )
        assert offered == (["secret"] if seen else [])


async def test_what_is_paused_takes_submissions_again_after_start(stage: Stage) -> None:
    stage.board("double")
    root = stage.admin()
    whats = ({}, "The service"), ({"leaderboard_name": "double"}, "`double`"), ({"gpu": "H100"}, "`H100`")
    for options, told in whats:
        for command in ("admin pause", "admin stop"):
            paused = await ask(stage, root, command, reason="maintenance", **options)
            assert told in paused.messages[0].text
            assert [each.reason for each in list_pauses(stage.db)] == ["maintenance"]
            started = await ask(stage, root, "admin start", **options)
            assert told in started.messages[0].text
            assert list_pauses(stage.db) == []


async def test_figures_are_told(stage: Stage) -> None:
    await judged(stage)
    root = stage.admin()
    for command in ("admin stats", "admin show-stats"):
        asked = await ask(stage, root, command, last_day_only=True)
        assert "submissions = 1" in asked.messages[0].text
        assert "H100: 1 run, 1 passed" in asked.messages[0].text


async def test_a_quarantined_result_is_decided_with_buttons_that_outlive_a_restart(
    stage: Stage,
) -> None:
    await judged(stage)
    job = show_submission(stage.db, 1).jobs[0]
    now = stage.discord.clock.now()
    quarantine(stage.db, OPERATOR, job.id, reason="too fast", evidence={"ratio": "`1`@here"}, now=now)
    root = stage.admin()
    asked = await ask(stage, root, "admin reviews")
    assert "too fast" in asked.messages[0].text
    assert not asked.messages[0].pings
    await stage.bot.close()
    async with connected(stage.discord, stage.guild, stage.bot_config):
        pressed = await asked.press("Reject")
        done = await pressed.fill({"note": "looked at it"})
        await done.wait_text("looked at it", 15)
        assert open_reviews(stage.db, OPERATOR) == []
        assert not asked.messages[0].controls
        none = await ask(stage, root, "admin reviews")
        assert "No result waits" in none.messages[0].text


async def test_a_problem_set_is_previewed_before_anything_changes(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_for: list[tuple[str, bool]] = []

    def sync(*_: object, repository: str, options: Any, **__: object) -> SyncResult:
        asked_for.append((repository, options.preview))
        return SyncResult(commit="c" * 40, preview=options.preview, created=["grayscale"])

    monkeypatch.setattr("kernelcup.app.boards.problem_sync.sync_problem_set", sync)
    root = stage.admin()
    asked = await ask(stage, root, "admin update-problems", repository_name="gpu-mode/reference-kernels")
    assert "would be made: `grayscale`" in asked.messages[0].text
    await (await asked.press("Make these changes")).wait_text("**Done**", 15)
    url = "https://github.com/gpu-mode/reference-kernels"
    assert asked_for == [(url, True), (url, False)]


async def test_a_long_preview_comes_in_several_messages_with_the_buttons_at_the_end(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sync(*_: object, options: Any, **__: object) -> SyncResult:
        skipped = [Skipped(name=f"board-{number}", reason="r" * 100) for number in range(60)]
        return SyncResult(commit="c" * 40, preview=options.preview, created=["grayscale"], skipped=skipped)

    monkeypatch.setattr("kernelcup.app.boards.problem_sync.sync_problem_set", sync)
    asked = await ask(stage, stage.admin(), "leaderboard update", repository_name="a/b")
    await stage.discord.until(lambda: asked.messages[-1].controls, "buttons", 15)
    assert len(asked.messages) > 2
    pressed = await asked.press("Make these changes")
    done = await pressed.wait_text("**Done**", 15)
    assert not done.controls


def test_a_repository_is_an_address_or_a_name_on_github() -> None:
    assert create_board.repository_address("a/b ") == "https://github.com/a/b"
    assert create_board.repository_address("https://git.example.org/x") == "https://git.example.org/x"
    assert create_board.repository_address("/srv/problems") == "/srv/problems"


def test_a_plan_names_what_is_left_out() -> None:
    plan = RejudgePlan(
        submissions=2,
        jobs=3,
        by_device={"H100": 3},
        other_version=1,
        standing=2,
        estimated_gpu_s=120.0,
        left_out={"quarantined": 1},
        dry_run=True,
    )
    text = admin.plan_text(plan)
    assert "3 jobs" in text
    assert "another version" in text
    assert "left out: 1 quarantined" in text
