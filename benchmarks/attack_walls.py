"""Attacks on the witness with what stops them, without it, and on older sources, on a GPU: one table of all.

    python benchmarks/attack_walls.py FOLDER [--seconds 470] [--runs 3] [--before DIR] [--only now,memsets]

``DIR`` holds sources from before the remedies (``git archive COMMIT src | tar -x -C ...``; DIR/src is read). Each step
is a call of ``clean_room_attacks.py`` with a folder of its own below FOLDER, and goes on where it stopped. Without
``--runs`` times of the present sources, each step runs once. The table is printed again by ``--seconds 0``.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import timing_path
import without_remedy
from clean_room_attacks import NAME
from time_common import options, read

HERE = Path(__file__).resolve().parent
NEW = "v67,v68,v69,v70,v71,v72"


@dataclass(frozen=True, slots=True)
class Step:
    """One call of the other script: which sources, and which attacks."""

    name: str
    attacks: str
    remedies: str = ""
    """Those to take out of the present sources."""
    before: bool = False
    """Whether the older sources are meant."""


STEPS = (
    Step("before", "v72,v67,v68,v71,v70", before=True),
    Step("memsets", "v68", "memsets"),
    Step("marks", "v69_false_marks", "marks+memsets+scatter+doubts"),
    Step("latest", "v70", "latest+doubts"),
    Step("sizes", "v71", "forms+sizes"),
    Step("now", NEW),
)


def source_of(step: Step, before: str) -> Path:
    """Return the folder of the sources of a step; make it where remedies are to be taken out."""
    if step.before:
        return Path(before).resolve() / "src"
    if not step.remedies:
        return HERE.parent / "src"
    made = Path(tempfile.gettempdir(), "kernelcup-without", step.name)
    without_remedy.main(step.remedies, str(made))
    return made / "src"


def run(step: Step, chosen: Any, seconds: float) -> None:
    """Have the attacks of a step judged."""
    runs = chosen.runs if step.name == "now" else 1
    command = [sys.executable, str(HERE / "clean_room_attacks.py"), str(chosen.folder / step.name)]
    command += [
        "--backend",
        chosen.backend,
        "--only",
        step.attacks,
        "--runs",
        str(runs),
        "--seconds",
        f"{seconds:.0f}",
        "--long",
        "1",
    ]
    source = str(source_of(step, chosen.before))
    environment = {**os.environ, timing_path.VARIABLE: source, "PYTHONUNBUFFERED": "1"}
    print(f"== {step.name}: {step.remedies or source}", flush=True)
    code = subprocess.run(command, env=environment, check=False).returncode
    if code:
        print(f"== {step.name} ended with {code}", flush=True)


def rows(steps: Sequence[Step], folder: Path) -> list[tuple[str, ...]]:
    """Return what became of each attack at each step, run by run: one row for all runs that ended alike."""
    found: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for step in steps:
        for line in read(folder / step.name / NAME):
            if line["role"] == "attack":
                end = f"{line['verdict']} {line.get('reason', '')}".strip()
                key = (
                    step.name,
                    line["name"],
                    end,
                    str(line.get("trust", "")),
                    " ".join(line.get("findings", [])),
                    str(line.get("duel", "")),
                    "acted" if line.get("acted") else "",
                )
                found.setdefault(key, []).append(line)
    return [(*key[:2], str(len(lines)), ratios(lines), *key[2:]) for key, lines in found.items()]


def ratios(lines: Sequence[dict[str, Any]]) -> str:
    """Return the median ratio to the twin of each case."""
    known = [line["ratios"] for line in lines if line.get("ratios")]
    known = [each for each in known if len(each) == len(known[0])]
    return " ".join(f"{statistics.median(each):.3f}" for each in zip(*known, strict=True)) or "-"


def table(found: Sequence[tuple[str, ...]]) -> str:
    """Return rows as text in columns."""
    head = ("sources", "attack", "runs", "share of twin", "verdict", "level", "findings", "duel", "acted")
    lines = [head, *sorted(found)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
    )


def main() -> None:
    """Run what is missing, and print the table."""
    chosen = options(__doc__, runs=3, before="", only="")
    until = time.monotonic() + chosen.seconds
    names = chosen.only.split(",") if chosen.only else [step.name for step in STEPS]
    steps = [step for step in STEPS if step.name in names and (chosen.before or not step.before)]
    for step in steps:
        left = until - time.monotonic()
        if left > 0:
            run(step, chosen, left)
    print(table(rows(STEPS, chosen.folder)), flush=True)


if __name__ == "__main__":
    main()
