"""Statistical repeats on a machine of several GPUs: each does one measurement after the other, on its own.

    python benchmarks/time_streams.py FOLDER JOBS [--seconds 540] [--only NAME ...] [--keep WORK] [--rounds 10]
        [--forged 100]

``JOBS`` is the folder that ``time_attacks.py jobs`` has written. Verdicts, duels, forged claims, honest
submissions, coverage, conditions, attacks and a queue of jobs are cut into pieces that any GPU takes, the longest
first. Each GPU has its share of the processor's cores for itself, as a machine of one GPU has.
What comes of them is in ``FOLDER/time-*.jsonl`` every few seconds, so that nothing is lost where the machine
is taken away; another call with the same ``--keep`` goes on where one was cut off. How long a verdict takes and
the queue's throughput are better measured alone: memory and disk are shared.
"""

from __future__ import annotations

import argparse
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
MERGE_S = 8.0
ROUNDS = 10
DUELS, FORGED, KEPT = 100, 100, 4
CLOSE = ("v08_python_timer-synchronize", "v17_short_series-left_out", "v19_shaved_claim")
"""Attacks that get through now and then: one run says little of them."""
STAGE_S = "1.8"


@dataclass(frozen=True, kw_only=True)
class Piece:
    """One command of a script."""

    name: str
    script: str
    arguments: tuple[str, ...]
    about_s: float


def pieces(jobs: Path, count: int, whole_rounds: int, whole_forged: int) -> list[Piece]:
    """Return all, the longest first; what is repeated often in so many pieces."""
    whole = (DUELS, whole_forged, whole_rounds, KEPT)
    duels, forged, rounds, processes = (-(-each // count) for each in whole)
    found = [
        Piece(name="verdicts", script="time_verdicts", arguments=(), about_s=430),
        Piece(name="bias", script="time_bias", arguments=(), about_s=60),
        Piece(name="line", script="time_audits", arguments=("--part", "line"), about_s=60),
        Piece(name="coverage", script="time_coverage", arguments=(), about_s=150),
        *(
            Piece(name=f"conditions-{part}", script="time_conditions", arguments=("--part", part), about_s=s)
            for part, s in (("persisting", 40), ("hint", 40), ("hot", 75), ("company", 25))
        ),
        honest("jax", whole_rounds, 0, 140),
        honest("cupy", whole_rounds, 0, 45),
        Piece(name="throughput", script="time_throughput", arguments=(), about_s=170),
    ]
    for number in range(count):
        share = ("--share", f"{number}/{count}")
        found += [
            Piece(
                name=f"attacks-{number}",
                script="time_attacks",
                arguments=("run", str(jobs), "FOLDER", *share),
                about_s=300 / count,
            ),
            Piece(
                name=f"duels-{number}",
                script="time_duels",
                arguments=("--repeats", f"{duels}"),
                about_s=1000 / count,
            ),
            Piece(
                name=f"kept-{number}",
                script="time_conditions",
                arguments=("--part", "kept", "--processes", f"{processes}"),
                about_s=20 * processes,
            ),
            Piece(
                name=f"close-{number}",
                script="time_attacks",
                arguments=("run", str(jobs), "FOLDER", "--only", ",".join(CLOSE), "--rounds", "2"),
                about_s=60,
            ),
            Piece(
                name=f"forged-{number}",
                script="time_audits",
                arguments=("--part", "forged", "--forged", f"{forged}", "--stage-budget", STAGE_S),
                about_s=400 / count,
            ),
            honest("torch", rounds, number, 550 / count),
        ]
    return sorted(found, key=lambda each: -each.about_s)


def honest(tree: str, rounds: int, number: int, about_s: float) -> Piece:
    """Return some rounds of the honest submissions of one process tree."""
    arguments = ("--part", "honest", "--tree", tree, "--repeats", f"{rounds}", "--stage-budget", STAGE_S)
    return Piece(name=f"honest-{tree}-{number}", script="time_audits", arguments=arguments, about_s=about_s)


def gpus() -> list[str]:
    """Return the ids of all GPUs."""
    query = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()


def share(number: int, count: int) -> Sequence[int]:
    """Return the cores of one of some GPUs; neighbours, for they share caches."""
    cores = sorted(os.sched_getaffinity(0))
    each = max(1, len(cores) // count)
    return cores[number * each : (number + 1) * each] or cores


def work(gpu: str, cores: Collection[int], own: Path, todo: queue.SimpleQueue[Piece], until: float) -> None:
    """Do pieces on one GPU and some cores until there are none, or no time."""
    own.mkdir(parents=True, exist_ok=True)
    # Of this thread, and so of what it starts.
    os.sched_setaffinity(0, cores)
    # Facts and canaries of a GPU lie in its temporary folder.
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": gpu, "TMPDIR": str(own)}
    while time.monotonic() < until:
        try:
            piece = todo.get_nowait()
        except queue.Empty:
            return
        target = own.parent / "found" / piece.name
        arguments = [str(target) if each == "FOLDER" else each for each in piece.arguments]
        if "FOLDER" not in piece.arguments:
            arguments = [str(target), *arguments]
        command = [sys.executable, str(HERE / f"{piece.script}.py"), *arguments]
        began = time.monotonic()
        with subprocess.Popen(
            command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as done:
            assert done.stdout is not None
            for line in done.stdout:
                print(f"[{piece.name}] {line}", end="", flush=True)
        print(
            f"[{piece.name}] ended with {done.returncode} after {time.monotonic() - began:.0f} s", flush=True
        )


def merge(folder: Path, target: Path) -> None:
    """Bring together what there is by now."""
    texts: dict[str, list[str]] = defaultdict(list)
    for path in sorted((folder / "found").glob("*/time-*.jsonl")):
        text = path.read_text(encoding="utf-8")
        # The last line may be half written.
        texts[path.name].append(text[: text.rfind("\n") + 1])
    for name, parts in texts.items():
        new = target / f"{name}.new"
        new.write_text("".join(parts), encoding="utf-8")
        new.replace(target / name)


def main() -> int:
    """Do all pieces."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("jobs", type=Path)
    parser.add_argument("--seconds", type=float, default=540.0, help="begin nothing new after so long")
    parser.add_argument("--only", nargs="*", default=[""], help="pieces whose names begin so, in this order")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of the honest submissions")
    parser.add_argument("--forged", type=int, default=FORGED, help="runs of forged ones")
    parser.add_argument("--keep", type=Path, help="folder of what was measured, for another call")
    chosen = parser.parse_args()
    chosen.folder, chosen.jobs = chosen.folder.resolve(), chosen.jobs.resolve()
    chosen.keep = chosen.keep.resolve() if chosen.keep else None
    chosen.folder.mkdir(parents=True, exist_ok=True)
    todo: queue.SimpleQueue[Piece] = queue.SimpleQueue()
    ids = gpus()
    everything = pieces(chosen.jobs, len(ids), chosen.rounds, chosen.forged)
    for beginning in chosen.only:
        for piece in everything:
            if piece.name.startswith(beginning):
                todo.put(piece)
    until = time.monotonic() + chosen.seconds
    with tempfile.TemporaryDirectory(prefix="kernelcup-streams-") as name:
        folder = chosen.keep or Path(name)
        workers = [
            threading.Thread(
                target=work, args=(gpu, share(number, len(ids)), folder / f"{number}", todo, until)
            )
            for number, gpu in enumerate(ids)
        ]
        for worker in workers:
            worker.start()
        while any(worker.is_alive() for worker in workers):
            time.sleep(MERGE_S)
            merge(folder, chosen.folder)
        merge(folder, chosen.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
