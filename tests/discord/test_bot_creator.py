"""Commands of those who make leaderboards."""

from __future__ import annotations

import time

import pytest
from stage import Stage

from builders import zip_of
from kernelcup.app.boards.boards import get_board, list_boards
from kernelcup.app.boards.judgeable import Tried
from kernelcup.app.boards.problem_sync import Skipped, SyncError, SyncResult
from kernelcup.bot.commands.create_board import sync_text
from kernelcup.domain import OPERATOR, Visibility

pytestmark = pytest.mark.anyio

SINGLE = b"""\
import torch


def check_implementation(user_output, reference_output) -> bool:
    return torch.equal(user_output, reference_output)


def generate_input() -> torch.Tensor:
    return torch.randn(64)


def ref_kernel(data: torch.Tensor) -> torch.Tensor:
    return data
"""
GPU_MENU = "Select GPUs for this leaderboard..."
DELETE_MENU = "Select the leaderboard to delete..."


def board_names(stage: Stage) -> list[str]:
    """Return the names of all leaderboards."""
    return [board.name for board in list_boards(stage.db)]


async def test_a_leaderboard_is_made_of_a_single_file_with_the_gpus_of_the_menu(stage: Stage) -> None:
    grace = stage.creator()
    given = {"leaderboard_name": "same", "deadline": "2026-12-24 18:00 Europe/Paris"}
    asked = await stage.discord.slash(
        grace, stage.room, "leaderboard create", given, ("reference_code.py", SINGLE)
    )
    await (await asked.choose(GPU_MENU, ["MI300"])).wait_text("was created")
    board = get_board(stage.db, "same")
    assert (board.devices, board.creator, board.visibility) == (("MI300",), "grace", Visibility.PUBLIC)
    assert asked.ephemeral
    assert f"<t:{int(board.deadline.timestamp()) if board.deadline else 0}:F>" in asked.messages[-1].text
    assert not asked.messages[-1].controls
    assert "**Judged by** the standard harness" in asked.messages[-1].text
    assert "The code of ranked results is shown to all who see" in asked.messages[-1].text


class Doubting:
    """A trial that finds a checker which accepts what is wrong."""

    def try_task(self, *_: object, **__: object) -> Tried:
        """Find it."""
        return Tried(loose=("the checker ignores the answer",))


async def test_a_checker_that_accepts_wrong_answers_is_refused(stage: Stage) -> None:
    stage.platform.trial = Doubting()
    given = {"leaderboard_name": "same", "deadline": "2026-12-24", "gpus": "H100"}
    asked = await stage.discord.slash(
        stage.creator(), stage.room, "leaderboard create", given, ("a.py", SINGLE)
    )
    assert "the checker ignores the answer" in (await asked.wait_response()).text
    assert board_names(stage) == []


class Long:
    """A trial that takes longer than most requests may."""

    def try_task(self, *_: object, **__: object) -> Tried:
        """Take long."""
        time.sleep(0.6)
        return Tried()


async def test_a_task_whose_trial_takes_long_is_made(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelcup.client.requests.TIMEOUT_S", 0.3)
    stage.platform.trial = Long()
    given = {"leaderboard_name": "same", "deadline": "2026-12-24", "gpus": "H100"}
    asked = await stage.discord.slash(
        stage.creator(), stage.room, "leaderboard create", given, ("a.py", SINGLE)
    )
    assert "was created" in (await asked.wait_response()).text


IN_C = b"""\
// Scale a vector.
int generate_input(const kc_case *parameters, uint64_t seed, kc_args *inputs, kc_context *context) { return 0; }
int ref_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) { return 0; }
"""


async def test_a_leaderboard_is_made_of_a_single_file_in_cuda(stage: Stage) -> None:
    grace = stage.creator()
    for name in ("scale.cu", "scale.cuh", "scale.cpp"):
        board = name.replace(".", "-")
        given = {"leaderboard_name": board, "deadline": "2026-12-24", "gpus": "H100"}
        asked = await stage.discord.slash(grace, stage.room, "leaderboard create", given, (name, IN_C))
        await asked.wait_text("was created")
        assert "**Judged by** the standard harness" in asked.messages[-1].text
        assert get_board(stage.db, board).devices == ("H100",)


async def test_gpus_that_are_given_need_no_menu(stage: Stage) -> None:
    given = {
        "leaderboard_name": "same",
        "deadline": "2026-12-24",
        "gpus": "h100, MI300",
        "members_only": True,
    }
    asked = await stage.discord.slash(
        stage.creator(), stage.room, "leaderboard create", given, ("reference_code.py", SINGLE)
    )
    await asked.wait_text("Only members see it")
    board = get_board(stage.db, "same")
    assert (board.devices, board.visibility) == (("H100", "MI300"), Visibility.CLOSED)


async def test_what_is_wrong_is_told_before_the_menu_of_gpus(stage: Stage) -> None:
    grace = stage.creator()
    for deadline, content, told in [
        ("2026-12-24", b"PK\x03\x04 and no more", "The task has problems"),
        ("2026-12-24", zip_of({"t/task.yml": b"lang: [\n"}), "task.yml:2"),
        ("2026-12-24", zip_of({"t/reference_code.py": b"x = 1\n"}), "task.yml"),
        ("2020-01-01", SINGLE, "has already passed"),
        ("2026-12-24 23:59 PST", SINGLE, "is probably meant"),
    ]:
        given = {"leaderboard_name": "broken", "deadline": deadline}
        name = "a.zip" if content.startswith(b"PK") else "a.py"
        asked = await stage.discord.slash(grace, stage.room, "leaderboard create", given, (name, content))
        answer = await asked.wait_response()
        assert told in answer.text
        assert not answer.controls
        assert "body" not in answer.text


async def test_what_is_wrong_with_a_task_is_shown_by_line(stage: Stage) -> None:
    folder = {
        "task/task.yml": b"lang: py\ntests:\n  - {size: 1, seed: x}\nbenchmarks: 3\n",
        "task/reference.py": b"def generate_input(:\n",
    }
    given = {"leaderboard_name": "broken", "deadline": "2026-12-24", "gpus": "H100"}
    asked = await stage.discord.slash(
        stage.creator(), stage.room, "leaderboard create", given, ("broken.zip", zip_of(folder))
    )
    told = await asked.wait_text("The task has problems")
    assert "task/task.yml:4:" in told.text
    assert board_names(stage) == []


async def test_the_role_decides_who_may_make_a_leaderboard_and_is_asked_for_gpus(stage: Stage) -> None:
    alice = stage.guild.add_member("alice")
    given = {"leaderboard_name": "same", "deadline": "2026-12-24"}
    file = ("reference_code.py", SINGLE)
    for gpus in ({}, {"gpus": "H100"}):
        asked = await stage.discord.slash(alice, stage.room, "leaderboard create", given | gpus, file)
        answer = await asked.wait_response()
        assert "needs the role creator" in answer.text
        assert not answer.controls
    assert board_names(stage) == []
    stage.guild.give(alice, "Leaderboard Creator")
    again = await stage.discord.slash(alice, stage.room, "leaderboard create", given | gpus, file)
    await again.wait_text("was created")


async def test_what_cannot_be_a_leaderboard_is_refused(stage: Stage) -> None:
    grace = stage.creator()
    for given, file, told in [
        ({"deadline": "yesterday"}, ("a.py", SINGLE), "❌ 'yesterday' is not a date or time; expected "),
        ({"deadline": "2001-01-01"}, ("a.py", SINGLE), "already passed"),
        ({"leaderboard_name": "@everyone"}, ("a.py", SINGLE), "Leaderboard name"),
        ({"gpus": " , "}, ("a.py", SINGLE), "at least one GPU"),
        ({"gpus": "T5"}, ("a.py", SINGLE), "is not configured here"),
        ({}, ("a.cu", b"//"), "The task has problems"),
        ({}, ("a.zip", b"no zip"), "The task has problems"),
    ]:
        options = {"leaderboard_name": "same", "deadline": "2026-12-24", "gpus": "H100"} | given
        asked = await stage.discord.slash(grace, stage.room, "leaderboard create", options, file)
        answer = await asked.wait_response()
        assert told.replace("\\", "") in answer.text.replace("\\", "")
        assert not answer.pings
        assert board_names(stage) == []


async def test_a_name_that_is_taken_is_told_before_the_menu_of_gpus(stage: Stage) -> None:
    stage.board("same")
    given = {"leaderboard_name": "same", "deadline": "2026-12-24"}
    asked = await stage.discord.slash(
        stage.creator(), stage.room, "leaderboard create", given, ("a.py", SINGLE)
    )
    answer = await asked.wait_response()
    assert "❌" in answer.text
    assert answer.ephemeral
    assert not answer.controls


async def test_a_leaderboard_is_deleted_once_its_name_is_typed(stage: Stage) -> None:
    grace = stage.creator()
    stage.board("hers", creator=stage.account(grace))
    stage.board("others")
    asked = await stage.discord.slash(grace, stage.room, "leaderboard delete")
    await asked.wait_text("Which leaderboard")
    first = await asked.choose(DELETE_MENU, ["hers"])
    wrong = await first.fill({"name": "her"})
    await wrong.wait_text("Nothing was deleted")
    assert board_names(stage) == ["hers", "others"]
    right = await (await asked.choose(DELETE_MENU, ["hers"])).fill({"name": "hers"})
    await right.wait_text("was deleted")
    assert board_names(stage) == ["others"]


async def test_a_leaderboard_is_changed_after_it_was_shown_what_that_means(stage: Stage) -> None:
    grace = stage.creator()
    stage.board("hers", creator=stage.account(grace), devices=["H100"])
    given = {
        "leaderboard_name": "hers",
        "deadline": "2027-01-31",
        "gpus": "H100, mi300",
        "members_only": True,
    }
    asked = await stage.discord.slash(grace, stage.room, "leaderboard change", given)
    shown = await asked.wait_text("**Changes of `hers`**")
    assert "- devices: `H100` → `H100`, `MI300`" in shown.text
    assert get_board(stage.db, "hers").devices == ("H100",)
    await (await asked.press("Change it")).wait_text("was changed")
    board = get_board(stage.db, "hers", viewer=OPERATOR)
    assert (board.devices, board.visibility) == (("H100", "MI300"), Visibility.CLOSED)
    assert board.deadline is not None
    again = await stage.discord.slash(
        grace, stage.room, "leaderboard change", {"leaderboard_name": "hers", "deadline": "none"}
    )
    await (await again.press("Change it")).wait_text("was changed")
    assert get_board(stage.db, "hers", viewer=OPERATOR).deadline is None


async def test_a_leaderboard_is_closed_now(stage: Stage) -> None:
    grace = stage.creator()
    stage.board("hers", creator=stage.account(grace), devices=["H100"])
    asked = await stage.discord.slash(grace, stage.room, "leaderboard close", {"leaderboard_name": "hers"})
    await (await asked.press("Close it")).wait_text("`hers` is closed")
    assert get_board(stage.db, "hers").deadline is not None


async def test_a_task_is_replaced_after_it_was_shown_what_changes(stage: Stage) -> None:
    grace = stage.creator()
    given = {"leaderboard_name": "same", "deadline": "2026-12-24", "gpus": "H100"}
    made = await stage.discord.slash(grace, stage.room, "leaderboard create", given, ("a.py", SINGLE))
    await made.wait_text("was created")
    before = get_board(stage.db, "same").task_hash
    name = {"leaderboard_name": "same"}
    file = ("a.py", SINGLE.replace(b"64", b"128"))
    asked = await stage.discord.slash(grace, stage.room, "leaderboard change", name, file)
    shown = await asked.wait_text("changed: +1 −1 lines")
    assert not shown.pings
    await (await asked.press("Change it")).wait_text("✅ `same` was changed")
    assert get_board(stage.db, "same").task_hash != before
    same = await stage.discord.slash(grace, stage.room, "leaderboard change", name, file)
    assert not (await same.wait_text("Nothing changes")).controls


async def test_what_cannot_be_changed_is_refused(stage: Stage) -> None:
    stage.board("hers")
    root, alice = stage.admin(), stage.guild.add_member("alice")
    for given, told in [
        ({}, "Say what is to be changed"),
        ({"deadline": "soon"}, "is not a date or time"),
        ({"gpus": "T5"}, "is not configured here"),
    ]:
        for who, text in ((root, told), (alice, "❌")):
            asked = await stage.discord.slash(
                who, stage.room, "leaderboard change", {"leaderboard_name": "hers"} | given
            )
            answer = await asked.wait_response()
            assert text in answer.text.replace("\\", "")
            assert not answer.controls


async def test_the_menu_to_delete_has_what_somebody_manages(stage: Stage) -> None:
    grace = stage.creator()
    stage.board("hers", creator=stage.account(grace))
    stage.board("others", creator="linus")
    for member, names in ((grace, ["hers"]), (stage.admin(), ["others", "hers"])):
        asked = await stage.discord.slash(member, stage.room, "leaderboard delete")
        (menu,) = (await asked.wait_text("Which leaderboard")).controls
        assert [option["value"] for option in menu["options"]] == names
        offered = await stage.discord.autocomplete(
            member, stage.room, "leaderboard delete", "leaderboard_name", "he"
        )
        assert offered == [name for name in names if "he" in name]
    alice = stage.guild.add_member("alice")
    asked = await stage.discord.slash(alice, stage.room, "leaderboard delete")
    await asked.wait_text("no leaderboard that you may delete")


async def test_what_somebody_else_made_is_not_deleted(stage: Stage) -> None:
    stage.board("others", creator="linus")
    for command in ("leaderboard delete", "admin delete-leaderboard"):
        asked = await stage.discord.slash(
            stage.creator(command[:5]), stage.room, command, {"leaderboard_name": "others"}
        )
        done = await asked.fill({"name": "others"})
        assert "❌" in (await done.wait_response()).text
    assert board_names(stage) == ["others"]


async def test_more_leaderboards_than_a_menu_takes_are_no_error(stage: Stage) -> None:
    for number in range(27):
        stage.board(f"b{number}")
    asked = await stage.discord.slash(stage.admin(), stage.room, "leaderboard delete")
    told = await asked.wait_text("Which leaderboard")
    assert len(told.controls[0]["options"]) == 25
    await asked.press("▶")
    chosen = await asked.choose(f"{DELETE_MENU} (2/2)", ["b0"])
    done = await chosen.fill({"name": "b0"})
    await done.wait_text("was deleted")
    assert "b0" not in board_names(stage)


async def test_a_menu_that_nobody_uses_goes(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelcup.bot.messages.dialogs.ANSWER_IN_S", 0.05)
    given = {"leaderboard_name": "same", "deadline": "2026-12-24"}
    asked = await stage.discord.slash(
        stage.creator(), stage.room, "leaderboard create", given, ("a.py", SINGLE)
    )
    menu = await asked.wait_text("On which GPUs")
    await stage.discord.until(lambda: not menu.controls, "the menu to go", 15)
    assert board_names(stage) == []


def test_what_a_sync_says_does_nothing() -> None:
    hostile = "@everyone **x** <@1> [a](https://evil.example) ```"
    result = SyncResult(
        commit="c" * 40,
        preview=False,
        created=[f"`{hostile}"],
        skipped=[Skipped(name=hostile, reason=hostile)],
        errors=[SyncError(name="b", error=hostile)],
    )
    text = sync_text(result)
    outside = "".join(text.split("`")[::2])
    assert "](https" not in outside
    assert "@everyone" not in outside
    assert "<@1>" not in outside
    assert "**x**" not in outside


def test_a_sync_without_anything_to_do_says_so() -> None:
    assert "nothing to do" in sync_text(SyncResult(commit="c" * 40, preview=True))
