"""CONTRIBUTING's worked examples name modules and symbols that exist."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

import ranking_model
from builders import NOW, make_entry
from kernelcup.cli.show.ranking import place_object
from kernelcup.client.models import read_standing
from kernelcup.domain import Result, Score
from kernelcup.http.api.result_forms import StandingOut

ROOT = Path(__file__).resolve().parents[2]
MOST_MODULES = 6


def examples() -> dict[str, list[tuple[str, list[str]]]]:
    """Return each example's modules with their symbols, by the example's title."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.split("## Worked examples\n")[1].split("\n## ")[0]
    found = {}
    for part in section.split("\n### ")[1:]:
        title, _, body = part.partition("\n")
        lines = re.findall(r"^- `([^`]+)`: (.+)$", body, re.MULTILINE)
        found[title] = [(path, re.findall(r"`(\w+)`", rest)) for path, rest in lines]
    return found


def named() -> list[tuple[str, str]]:
    """Return all pairs of a module and a symbol."""
    return [(path, symbol) for each in examples().values() for path, symbols in each for symbol in symbols]


def test_what_is_added_most_often_has_an_example() -> None:
    titles = [
        "column in the standings",
        "verdict",
        "doubt",
        "kind of device",
        "launcher",
        "Discord command",
        "key of",
        "page",
    ]
    found = list(examples())
    assert [title for title in titles if not any(title in each for each in found)] == []
    assert all(examples().values())


@pytest.mark.parametrize(("path", "symbol"), named())
def test_a_named_module_has_the_named_symbol(path: str, symbol: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    assert re.search(rf"^\s*(?:async def|def|class) {symbol}\b|^\s*{symbol}\b.*=", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("title", "word", "makers"),
    [
        ("A key of `task.yml`", "non_finite", set()),
        # Where this verdict comes from; another one comes from elsewhere.
        ("A verdict", "OUTPUT_LIMIT_EXCEEDED", {"build/step", "run/record", "run/task_harness_results"}),
    ],
)
def test_an_example_names_every_module_that_has_its_word(title: str, word: str, makers: set[str]) -> None:
    modules = (path for path in (ROOT / "src").rglob("*.py") if word in path.read_text(encoding="utf-8"))
    found = {path.relative_to(ROOT).as_posix() for path in modules}
    assert found - {path for path, _ in examples()[title]} == {
        f"src/kernelcup_harness/{each}.py" for each in makers
    }


def test_a_column_of_the_standings_touches_at_most_six_modules() -> None:
    (modules,) = [each for title, each in examples().items() if title.startswith("A column")]
    assert len(modules) <= MOST_MODULES


def test_a_score_goes_to_the_server_and_back_by_the_names_of_its_fields() -> None:
    score = Score(score_s=1e-6, low_s=0.9e-6, high_s=1.1e-6, raw_s=1.2e-6)
    (standing,) = ranking_model.standings([dataclasses.replace(make_entry(), score=score)])
    assert read_standing(StandingOut.of(standing).model_dump(mode="json")) == standing


def test_an_answer_of_a_server_without_the_newest_fields_is_read() -> None:
    (standing,) = ranking_model.standings([make_entry(submitted_at=NOW)])
    body: dict[str, Any] = StandingOut.of(standing).model_dump(mode="json")
    for name in ("low_s", "raw_s"):
        del body[name]
    assert read_standing(body) == standing


def test_every_field_of_a_standing_is_sent_and_printed() -> None:
    (standing,) = ranking_model.standings([make_entry()])
    names = {each.name for kind in (Result, Score) for each in dataclasses.fields(kind)} - {"score"}
    for body in (StandingOut.of(standing).model_dump(), place_object(standing)):
        assert {name.removesuffix("_id") for name in names} - body.keys() == set()
