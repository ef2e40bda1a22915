"""How much two loads of one captured kernel differ, on a GPU: each in fresh timers, loads in the same order.

    python benchmarks/load_probe.py FILE.json [--timers 3] [--loads 8] [--rounds 40]

A contestant exports its calls and ends; each timer loads the export several times, and times all loads in random turns
with a cold and with a warm cache. The mean of each load is printed less the median of all, in nanoseconds. This is why
duels load both sides many times (``kernelcup_harness.protocol.duels``). Needs torch, Triton and one NVIDIA GPU.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
from pathlib import Path
from typing import Any

import clean_room_duels
import replay_probe as probe
from time_common import about, options

from kernelcup_harness.protocol import Backend, estimates

HERE = Path(__file__).resolve()
KINDS = ("spin_0", "triton")
"""A kernel of one thread, and one that fills the device."""


def main() -> int:
    """Measure, print and write."""
    chosen = options(__doc__, timers=3, loads=8, rounds=40)
    exported, found = clean_room_duels.exports(KINDS), []
    for name in KINDS:
        for _ in range(chosen.timers):
            ask = {"loads": chosen.loads, "rounds": chosen.rounds, "path": exported[name]["path"]}
            found.append({"name": name, **clean_room_duels.in_a_timer(HERE, exported[name], ask)})
            print(json.dumps(found[-1]), flush=True)
    chosen.folder.write_text(json.dumps({**about(Backend.CUDA), "timers": found}, indent=1), encoding="utf-8")
    return 0


def timer(sock: Any) -> None:
    """Load the export several times, and time all loads in turns."""
    own = clean_room_duels.Timer(sock)
    ask = own.ask
    loads = [own.load(ask["path"]) for _ in range(ask["loads"])]
    calls = [(load, place) for load in range(len(loads)) for place in range(len(loads[0]))]
    answer = {}
    for cold in (True, False):
        taken: dict[tuple[int, int], list[float]] = {each: [] for each in calls}
        for _ in range(ask["rounds"]):
            for load, place in random.sample(calls, len(calls)):
                taken[load, place].append(own.gun.sample(loads[load][place], cold=cold))
        means = {each: estimates.robust(taken[each]) for each in calls}
        of_loads = [
            statistics.fmean(means[load, place] for place in range(len(loads[0])))
            for load in range(len(loads))
        ]
        middle = statistics.median(of_loads)
        key = "cold" if cold else "warm"
        answer[key] = {"median_ns": round(middle), "loads_ns": [round(each - middle) for each in of_loads]}
    probe.talk(sock, answer)


if __name__ == "__main__":
    if sys.argv[1] == "timer":
        timer(probe.socket.socket(fileno=int(sys.argv[2])))
    else:
        sys.exit(main())
