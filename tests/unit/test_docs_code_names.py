"""The pages about the code name modules, classes and functions that exist, and leave no module out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import takewhile
from pathlib import Path

import grimp
import pytest
from test_docs import ROOT, load_script

PAGES = ROOT / "docs/explanation"
READ, HOUSE = PAGES / "read-the-judge.md", PAGES / "architecture.md"
SOURCE = ROOT / "src"
PACKAGES = ("kernelcup", "kernelcup_harness")
HEADING = re.compile(r"^(#+) (.*?)(?:, about ([\d,]+) lines)?$", re.MULTILINE)
SPAN = re.compile(r"`([^`\n]+)`")
FILE_BY_FILE = ("clocks", "contestant", "core", "doubt", "judge", "timer", "window", "wire")
"""Rooms of the harness of which the page names each module; of the others it may name the room."""
VENDOR = "kernelcup_harness.device.nvidia."
"""Of these modules too."""
PROCESSES = ("judge_process", "contestant_process", "timer_process", "witness_process")


def file_of(module: str) -> Path | None:
    """Return the file of a module or package, None if there is none."""
    place = SOURCE.joinpath(*module.split("."))
    return next((each for each in (place.with_suffix(".py"), place / "__init__.py") if each.exists()), None)


def full_name(span: str) -> str | None:
    """Return the module that a span names, in full or within the harness; None if it names none."""
    if not re.fullmatch(r"[\w.]+", span):
        return None
    if span.split(".")[0] in PACKAGES:
        return span
    inside = f"kernelcup_harness.{span}"
    is_room = file_of(f"kernelcup_harness.{span.split('.')[0]}") is not None
    return inside if is_room else None


@cache
def names_in(module: str) -> frozenset[str]:
    """Return what a module defines: names at the top, and ``Class.name`` for members and annotated fields."""
    path = file_of(module)
    assert path is not None, module
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = set(defined(tree.body))
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            members = set(defined(node.body))
            found |= members | {f"{node.name}.{member}" for member in members}
    return frozenset(found)


def defined(body: list[ast.stmt]) -> Iterator[str]:
    """Yield the names that statements define."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                yield from (each.id for each in ast.walk(target) if isinstance(each, ast.Name))


def parts(page: Path) -> list[str]:
    """Return the parts of a page in which names belong to the modules beside them.

    A part is a heading of the fourth level with its paragraphs, another paragraph, or a row of a table.
    """
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    found = []
    for section in re.split(r"^(?=#)", text, flags=re.MULTILINE):
        whole = [section] if section.startswith("####") else re.split(r"\n\n|\n(?=[|-])", section)
        found += [part for part in whole if SPAN.search(part)]
    return found


def faults(part: str) -> Iterator[str]:
    """Yield the spans of a part that name nothing that exists."""
    spans = SPAN.findall(part)
    modules = [module for module in map(full_name, spans) if module is not None]
    known = frozenset().union(*(names_in(each) for each in modules if file_of(each) is not None))
    for span in spans:
        module = full_name(span)
        if module is not None:
            exists = file_of(module) is not None
        elif "/" in span or span.endswith((".md", ".toml")):
            exists = True  # paths of all pages: `test_named_paths.py`
        else:
            exists = span in known
        if not exists:
            yield f"{span}: {part.strip()[:80]}"


@pytest.mark.parametrize("page", [READ, HOUSE], ids=lambda page: page.name)
def test_each_name_of_the_code_exists(page: Path) -> None:
    assert [fault for part in parts(page) for fault in faults(part)] == []


def test_a_name_that_does_not_exist_is_found() -> None:
    wrong = "`Judge.acquit` of `judge.main`, and `judge.mercy`"
    found = [fault.split(":")[0] for fault in faults(wrong)]
    assert found == ["Judge.acquit", "judge.mercy"]


def sections() -> list[tuple[int, list[str], int]]:
    """Return level, modules and figure of each heading of the page about the judge."""
    text = READ.read_text(encoding="utf-8")
    return [
        (
            len(level),
            [f"kernelcup_harness.{each}" for each in SPAN.findall(title)],
            int((count or "0").replace(",", "")),
        )
        for level, title, count in HEADING.findall(text)
    ]


def lines_of(modules: list[str]) -> int:
    """Return the lines of modules together."""
    files = [file_of(each) for each in modules]
    return sum(each.read_text(encoding="utf-8").count("\n") for each in files if each is not None)


def test_the_lines_of_each_file_are_about_as_many_as_the_page_says() -> None:
    said = {tuple(modules): (count, lines_of(modules)) for _, modules, count in sections() if modules}
    assert len(said) > 30
    assert {each: pair for each, pair in said.items() if abs(pair[0] - pair[1]) > 10 + 0.1 * pair[1]} == {}


def test_the_lines_of_each_part_are_about_as_many_as_the_page_says() -> None:
    found, totals = sections(), []
    for begin, (level, modules, said) in enumerate(found):
        if said and not modules:
            within = takewhile(lambda each, level=level: each[0] > level, found[begin + 1 :])
            totals.append((said, sum(lines_of(inside) for _, inside, _ in within)))
    assert len(totals) > 10
    assert [pair for pair in totals if abs(pair[0] - pair[1]) > 0.1 * pair[1]] == []


def is_package(module: str) -> bool:
    """Return whether a module is a package."""
    return SOURCE.joinpath(*module.split(".")).is_dir()


def room_of(module: str) -> str:
    """Return the name of a module's room in the harness."""
    return module.split(".")[1]


def in_rooms(named: set[str | None]) -> set[str]:
    """Return the rooms that are named as a whole."""
    return {room_of(each) for each in named if each is not None and each.count(".") == 1}


def test_no_module_is_missing_that_the_processes_import() -> None:
    graph = grimp.build_graph("kernelcup_harness", cache_dir=None, exclude_type_checking_imports=True)
    roots = [f"kernelcup_harness.{name}" for name in PROCESSES]
    needed = {*roots}.union(*(graph.find_upstream_modules(root) for root in roots))
    named = {full_name(span) for span in SPAN.findall(READ.read_text(encoding="utf-8"))}
    missing = [
        module
        for module in sorted(needed - named)
        if not is_package(module)
        and (
            room_of(module) in FILE_BY_FILE
            or module.startswith(VENDOR)
            or room_of(module) not in in_rooms(named)
        )
    ]
    assert missing == []


def test_the_picture_of_the_rooms_is_up_to_date() -> None:
    drawing = load_script("architecture-picture")
    assert drawing.picture() == drawing.TARGET.read_text(encoding="utf-8"), "run scripts/architecture-picture"
    assert "(../images/architecture.svg)" in HOUSE.read_text(encoding="utf-8")
