"""A ranking as the bot shows it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kernelcup.bot.messages.boards import ranking_embed

LEVELS = {"ada": "witnessed", "bob": "replayed", "cyn": "wall clock"}


def place(user: str, trust: str, **changes: Any) -> dict[str, Any]:
    """Return a place as the API has it."""
    values = {
        "submitted_at": "2026-06-01T12:00:00+00:00",
        "rank": 1,
        "tied": False,
        "user": user,
        "score_s": 8e-5,
        "low_s": None,
        "high_s": None,
        "duel": "",
        "host_class": "",
        "ranked_by": "time",
    }
    return values | {"submission": 7, "file_name": "kernel.py", "trust": trust, "comparable": True} | changes


def test_times_below_the_best_level_say_so_in_the_ranking() -> None:
    places = [place(user, level) for user, level in LEVELS.items()]
    embed = ranking_embed("double", "H100", places, offset=0)
    assert embed.description is not None
    lines = [line for line in embed.description.splitlines() if "kernel.py" in line]
    assert ["(by the wall clock)" in line for line in lines] == [False, False, True]
    assert ["(replayed)" in line for line in lines] == [False, True, False]
    assert "some times are by the wall clock or replayed" in str(embed.footer.text)


@pytest.mark.parametrize(
    "name", ["@everyone", "**x**", "```\n@here", "<script>", "<@123>", "\u2764\ufe0f Ada"]
)
def test_a_shown_name_stands_in_the_table_as_text(name) -> None:
    described = ranking_embed(
        "double", "H100", [place("ada", "witnessed", shown_name=name)], offset=0
    ).description
    assert described is not None
    before, table, after = re.split("```(?:\\w+\\n)?", described)
    assert name.replace("```\n", "").removeprefix("@") in table
    assert "ada" not in described
    assert name not in before + after


def test_each_class_of_machines_has_a_table_and_the_reason_is_said() -> None:
    places = [place("ada", "witnessed", host_class="old"), place("bob", "witnessed", host_class="new")]
    embed = ranking_embed("double", "H100", places, offset=0)
    assert embed.description is not None
    first, second = embed.description.split("**new**")
    assert first.startswith("**old**")
    assert ("ada" in first, "bob" in first, "bob" in second) == (True, False, True)
    (field,) = embed.fields
    assert "not comparable between classes of machines" in str(field.value)
