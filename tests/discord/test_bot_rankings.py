"""Rankings in pages and as pictures, with buttons that outlive a restart."""

from __future__ import annotations

import re

import pytest
from discord_loopback import CannotDo, Interaction, Member
from stage import Stage, connected

from builders import make_actor, make_report, make_submission
from final_duels import close, hold
from kernelcup.app.boards.changes import update_board
from kernelcup.app.boards.settings import BoardChanges
from kernelcup.app.queue import lifecycle
from kernelcup.app.results import finals
from kernelcup.domain import OPERATOR

pytestmark = pytest.mark.anyio

LONGEST_NAME = "b" * 64


@pytest.fixture
def stage(stage: Stage) -> Stage:
    """A service with a leaderboard that twelve people entered."""
    stage.board(LONGEST_NAME, devices=["H100"])
    for number in range(12):
        enter(stage, f"user-{number}", 1000.0 + number)
    return stage


def enter(stage: Stage, user: str, time_ns: float) -> None:
    """Store somebody's ranked submission with its result."""
    now = stage.discord.clock.now()
    make_actor(stage.db, user)
    make_submission(stage.db, board=LONGEST_NAME, user=user, devices=["H100"], now=now)
    lease = lifecycle.claim_next(stage.db, owner="test", lease_s=60, devices=["H100"], now=now)
    assert lease is not None
    report = make_report([time_ns])
    lifecycle.finish(stage.db, lease, report=report, harness_hash="f" * 64, machine="m", now=now)


async def shown(stage: Stage, ada: Member) -> Interaction:
    """Ask for the ranking."""
    given = {"leaderboard_name": LONGEST_NAME, "gpu": "H100"}
    asked = await stage.discord.slash(ada, stage.room, "leaderboard show", given)
    await asked.wait_text("user-0", 15)
    return asked


def users_in(asked: Interaction) -> list[str]:
    """Return who stands on the page."""
    found: list[str] = re.findall(r"user-\d+", asked.messages[0].text)
    return found


async def test_pages_are_turned_also_after_a_restart(stage: Stage) -> None:
    asked = await shown(stage, stage.guild.add_member("ada"))
    assert len(users_in(asked)) == 10
    with pytest.raises(CannotDo, match="greyed out"):
        await asked.press("◀")
    await asked.press("▶")
    await asked.wait_text("user-11", 15)
    await stage.bot.close()
    async with connected(stage.discord, stage.guild, stage.bot_config):
        await asked.press("◀")
        await asked.wait_text("user-0", 15)
        assert len(users_in(asked)) == 10


async def test_the_official_order_of_a_final_stands_in_the_message(stage: Stage) -> None:
    now = stage.discord.clock.now()
    close(stage.db, LONGEST_NAME, now)
    finals.start(stage.db, OPERATOR, LONGEST_NAME, top=2, now=now)
    ada = stage.guild.add_member("ada")
    begun = (await shown(stage, ada)).messages[0].text.partition("Official order")[2]
    assert "The final is being held" in begun
    done = hold(stage.db, LONGEST_NAME, "H100", dict.fromkeys(range(1, 13), 1.0) | {2: 0.9}, now)
    official = (await shown(stage, ada)).messages[0].text.partition("Official order")[2]
    assert re.findall(r"user-\d+", official) == [each.user for each in done.places]
    assert done.places[0].user == "user-1"
    assert "All intervals hold together in at least 98 %" in official


async def test_a_button_draws_the_ranking(stage: Stage) -> None:
    asked = await shown(stage, stage.guild.add_member("ada"))
    pressed = await asked.press("As a picture")
    message = await pressed.wait_response(15)
    ((name, png),) = message.files.items()
    assert name == f"{LONGEST_NAME}-H100.png"
    assert png.startswith(b"\x89PNG")
    assert message.ephemeral


async def test_a_button_of_a_gpu_that_is_gone_says_so(stage: Stage) -> None:
    now = stage.discord.clock.now()
    stage.board("two", devices=["H100", "MI300"])
    given = {"leaderboard_name": "two", "gpu": "MI300"}
    ada = stage.guild.add_member("ada")
    asked = await stage.discord.slash(ada, stage.room, "leaderboard show", given)
    await asked.wait_text("No one is ranked here yet", 15)
    update_board(stage.db, OPERATOR, "two", changes=BoardChanges(devices=["H100"]), force=True, now=now)
    pressed = await asked.press("As a picture")
    await pressed.wait_text("has other GPUs now", 15)
