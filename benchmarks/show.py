"""Print what ``clean_room_*.py`` measured beside what is stored.

    python benchmarks/show.py             the stored figures
    python benchmarks/show.py FOLDER      those of FOLDER/clean-room-*.jsonl beside them

Everything is computed from raw samples, no GPU needed. A stored line counts for whichever code it measured; the last
line says how many were measured with other modules of the timing path than those here. Exit code 1 if a figure of
FOLDER (without FOLDER: a stored one) misses its goal; ``seen`` has no goal.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import clean_room_figures as figures
import timing_path
from time_common import read

HERE = Path(__file__).resolve().parent
FILES = ("jobs", "attacks", "bias", "duels", "throughput")
MARKS = {True: "pass", False: "FAIL", None: "----"}


def main(folders: list[Path]) -> int:
    """Print each figure, and return 1 if one misses its goal."""
    columns = [{row.what: row for row in shown(lines_of(folder))} for folder in folders]
    for what in dict.fromkeys(what for column in columns for what in column):
        for column, folder in zip(columns, folders, strict=True):
            if what in column:
                row = column[what]
                mark = "seen" if row.seen else MARKS[row.passed]
                print(f"{mark}  {what:78} {row.figure or 'not measured'}  [{folder.name}]")
    lines = [line for found in lines_of(folders[0]).values() for line in found]
    others = sum(line["path_hash"] != timing_path.path_hash() for line in lines)
    print(f"{others} of {len(lines)} lines of {folders[0].name} are of other modules of the timing path")
    return int(any(row.passed is False and not row.seen for row in columns[0].values()))


def lines_of(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return a folder's lines by benchmark."""
    return {name: read(folder / f"clean-room-{name}.jsonl") for name in FILES}


def shown(lines: dict[str, list[dict[str, Any]]]) -> list[figures.Shown]:
    """Return all figures of some lines."""
    jobs = lines["jobs"]
    return [
        *figures.attacks(lines["attacks"]),
        *figures.replayed(jobs),
        *figures.called(jobs),
        *figures.walls(jobs),
        *figures.bias(jobs, lines["bias"]),
        *figures.scatter(jobs),
        *figures.duels(lines["duels"]),
        *figures.seconds(jobs),
        *figures.queue(lines["throughput"]),
    ]


if __name__ == "__main__":
    stored = HERE / "results"
    sys.exit(main([*(Path(each).resolve() for each in sys.argv[1:2]), stored]))
