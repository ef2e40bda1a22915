"""What the documentation promises to first readers: commands that exist, figures that were measured."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import statistics
from pathlib import Path
from typing import Any

import pytest
from test_docs import cli_docs

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
HOW_TO = sorted((DOCS / "how-to").glob("*.md"))
RESULTS = ROOT / "benchmarks/results"
SHELL = re.compile(r"```bash\n(.*?)```", re.DOTALL)
ALLOWED_CURL = ("run-a-server.md",)
"""Its probes are for load balancers, which have no command line."""


def shell_lines(page: Path) -> list[str]:
    """Return the commands of a page, continued lines joined, without comments."""
    text = "\n".join(re.sub(r"^ +", "", block, flags=re.M) for block in SHELL.findall(page.read_text()))
    lines = [line.split(" #")[0].strip() for line in text.replace("\\\n", " ").splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def kernelcup_words(line: str) -> list[str] | None:
    """Return the words of a ``kernelcup`` command, None for another one."""
    first = re.split(r"\s(?:\||>|\|\||&&|&)(?:\s|$)", line)[0]
    words = shlex.split(re.sub(r"^(?:\w+=\S+ +)+", "", first))
    at = next((i for i, word in enumerate(words) if word.rpartition("/")[2] == "kernelcup"), None)
    return None if at is None else words[at + 1 :]


def test_first_pages_say_the_same_of_the_code_of_strangers() -> None:
    said = [
        re.findall(r"^\W*(The sandbox has had .*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        for page in (ROOT / "README.md", DOCS / "index.md")
    ]
    readme, index = ([text.replace("](docs/", "](") for text in each] for each in said)
    assert readme == index
    assert len(index) == 1
    limits = (DOCS / "explanation/limits-of-this-version.md").read_text(encoding="utf-8")
    assert "It has had no review from outside." in limits


@pytest.mark.parametrize("page", [page for page in HOW_TO if page.name not in ALLOWED_CURL], ids=str)
def test_how_to_pages_use_commands(page: Path) -> None:
    used = [line for line in shell_lines(page) if re.search(r"\b(?:curl|jq)\b", line)]
    assert used == []
    assert "$API" not in page.read_text()


@pytest.mark.parametrize(
    "page", sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")]), ids=lambda page: page.name
)
def test_every_command_of_a_page_exists(page: Path) -> None:
    known, targets = cli_docs.with_extensions(), (ROOT / "Makefile").read_text()
    for line in shell_lines(page):
        for target in re.findall(r"^make ((?:[a-z-]+ ?)+)", line):
            assert all(re.search(rf"^{each}:", targets, re.MULTILINE) for each in target.split()), line
        words = kernelcup_words(line)
        if not words or words[0].startswith("-"):
            continue
        path = next((" ".join(words[:n]) for n in (3, 2, 1) if " ".join(words[:n]) in known), None)
        assert path is not None, line
        options = {opt for param in known[path].params for opt in (*param.opts, *param.secondary_opts)}
        given = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        assert given - options - {"--help", "-h"} == set(), line


def rows(name: str) -> dict[str, Any]:
    """Return stored results by their number."""
    return {row["id"]: row for row in map(json.loads, (RESULTS / name).read_text().splitlines())}


def microseconds(ns: float) -> str:
    """Return a time as the page has it."""
    return f"{ns / 1000:.2f}"


def test_the_figures_beside_do_bench_are_stored() -> None:
    text = (DOCS / "explanation/your-do-bench-number.md").read_text()
    stored = json.loads(gzip.decompress((RESULTS / "replay-kinds-h100.json.gz").read_bytes()))
    assert stored["machine"].startswith("NVIDIA H100 80GB HBM3")
    calls = {case["case"]: case.get("rounds") for case in stored["cases"] if case["run"] == 3}
    for kind in ("small", "splitk", "matmul", "triton", "attention", "aten"):
        events, ours = (
            statistics.median(each[name] for each in calls[kind]) for name in ("events_us", "gun_us")
        )
        assert f"| {events:.2f} | {ours:.2f} |" in text
    kept = rows("time-conditions.jsonl")["361d76ad8bb8"]["found"]
    for name, found in kept.items():
        cold, warm = (statistics.median(found["undefended"][each]) for each in ("unseen", "seen"))
        assert f"| {name} | {microseconds(cold)} | {microseconds(warm)} |" in text
