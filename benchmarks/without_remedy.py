"""Copies the sources and takes remedies out of the copy: what an attack gains there shows what they are for.

    python benchmarks/without_remedy.py NAME[+NAME...] DIR

Writes ``DIR/src``; with ``KERNELCUP_SOURCE=DIR/src`` the other scripts of this folder measure it.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
HARNESS = "kernelcup_harness"
Edit = tuple[str, str, str]
"""A file of the harness, a text that it holds once, and what takes its place."""
ROOM, REPLAYS, TIMED, WITNESSED = (
    f"clocks/replay/{name}.py" for name in ("clean_room", "replays", "timed_replays", "witnessed")
)
MEANS = "witness, gun = trimmed_mean(watched_ns), trimmed_mean("
REMEDIES: dict[str, tuple[Edit, ...]] = {
    # Answers may differ in form between places, and their tables may hold what they do not use.
    "forms": (
        (REPLAYS, "if any((each.table, each.used) != (", "if False and any((each.table, each.used) != ("),
        ("window/layout.py", "        if set(used) != set(range(len(found))):", "        if False:"),
    ),
    # Answers may take as many bytes as a call may return.
    "sizes": (
        (
            REPLAYS,
            "        most_bytes = min(most_bytes, 2 * form.nbytes + OUTPUT_HEADROOM)\n",
            "        pass\n",
        ),
    ),
    # Graphs may differ between places.
    "shapes": ((ROOM, "        check_shapes(case)\n        order", "        order"),),
    # The driver's own memsets are replayed, which are no kernels if they are small.
    "memsets": (("device/nvidia/rebuild.py", "LEAST_MEMSET = 64 << 10", "LEAST_MEMSET = 0"),),
    # The lengths of marks are known (V69 has those of the second), and the first that looks like it ends a call.
    "marks": (
        (
            WITNESSED,
            "marks = [(drawn(), drawn()) for _ in rounds]",
            "marks = [((25_000, 45_000), (30_000, 30_000)) for _ in rounds]",
        ),
        ("clocks/trace.py", "stretches[begin : ends[-1]]", "stretches[begin : ends[0]]"),
    ),
    # Means are compared, any scatter is allowed, and eight calls check the witness however they scatter.
    "scatter": (
        (TIMED, "witness, gun = statistics.median(watched_ns), statistics.median(", MEANS),
        (TIMED, "    scatter = min(scatter, MOST_SHARE * witness + MOST_NS)\n", ""),
        (
            "clocks/sampling.py",
            "        few = self.budget.is_over or",
            "        few = True or self.budget.is_over or",
        ),
    ),
    # All calls of a case decide whether it is watched.
    "latest": ((TIMED, "statistics.median(case.fired_ns[-LATEST:])", "statistics.median(case.fired_ns)"),),
    # What is odd about times does not hold a run.
    "doubts": ((TIMED, "text=text, quarantines=True) for code", "text=text) for code"),),
}


def edited(root: Path, edits: tuple[Edit, ...]) -> dict[Path, str]:
    """Return files below a folder of sources and their new texts.

    Raise ``LookupError`` for a text that is not there once.
    """
    texts: dict[Path, str] = {}
    for name, old, new in edits:
        path = root / HARNESS / name
        text = texts.get(path) or path.read_text(encoding="utf-8")
        if text.count(old) != 1:
            raise LookupError(f"{name} has {text.count(old)} times, not once: {old!r}")
        texts[path] = text.replace(old, new)
    return texts


def main(names: str, folder: str) -> None:
    """Write the copy."""
    target = Path(folder) / "src"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(SOURCE, target, ignore=shutil.ignore_patterns("__pycache__"))
    edits = tuple(edit for name in names.split("+") for edit in REMEDIES[name])
    for path, text in edited(target, edits).items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
