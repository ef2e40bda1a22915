"""How far replayed times differ between fresh processes, and what duels in one timer tell apart.

    python3 benchmarks/replay_scatter.py OUT.json LIMIT_S [duels]

Contestants export their calls and end. Then fresh timers replay them, one at a time: 20 for each kernel, and a fresh
one for each duel. Needs torch and one NVIDIA GPU.
"""

from __future__ import annotations

import ctypes
import json
import math
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[1] / "src"), str(HERE.parent)]

import replay_cases  # noqa: E402
import replay_probe as probe  # noqa: E402

from kernelcup_harness.replay import window  # noqa: E402
from kernelcup_harness.replay.driver import Driver  # noqa: E402

KERNELS = ("small", "splitk", "more_0", "triton", "matmul", "aten")
DUELS = (("more_0", "more_0"), ("more_0", "more_16"))
PROCESSES, FIGHTS, SAMPLES = 20, 40, 100
STEP, MOST_PAIRS = 160, 1280
"""Fewer pairs are no normal sample: of 40 duels of equal kernels three ended at 40 or 80 pairs with a difference."""
ERROR = 0.02
"""Of equal kernels so many duels may be told apart, over all looks together."""


def timer(sock):
    """Time or compare what is handed over, once."""
    from kernelcup_harness.replay import graph_data, rebuild, start_gun

    begin = time.perf_counter()
    driver = Driver()
    context = driver.make_context()
    ask, fds = probe.listen(sock)
    shared = window.Window(driver)
    inputs = shared.attach(fds[0], window.WINDOW, ask["inputs"], access=window.READ)
    work = shared.attach(fds[1], window.WINDOW + ask["inputs"], probe.HEAP)
    sweep = driver.handle("cuMemAlloc_v2", ctypes.c_size_t(probe.SWEEP))
    gun = start_gun.StartGun(driver, (sweep, probe.SWEEP))
    empty = gun.empty_graph()
    inside = [inputs.addresses, work.addresses]
    made = []
    paths = ask["captures"]
    for path in paths if len(paths) == 1 else [*paths, *reversed(paths)]:
        found = graph_data.decode(Path(path).read_bytes())
        made.append(rebuild.Builder(driver, context, inside).build(found).executables)
    if len(made) > 1:
        # Two loads of one image may differ by 0.3 % all the time: each graph is loaded twice, first and last.
        first, second, second_again, first_again = made
        made = [first + first_again, second + second_again]
    gun.samples(made[0], 8)
    ready = time.perf_counter()
    baseline = statistics.median(gun.samples([empty], 48))
    if len(made) == 1:
        answer = {"ns": [each - baseline for each in gun.samples(made[0], SAMPLES)], "empty_ns": baseline}
    else:
        answer = fight(gun, made, baseline)
    gun.check()
    answer |= {"ready_s": ready - begin, "measured_s": time.perf_counter() - ready}
    probe.talk(sock, answer)


def fight(gun, made, baseline):
    """Take pairs in turns until the interval of the mean ratio no longer holds 1, or there are enough."""
    ratios, looks = [], int(math.log2(MOST_PAIRS / STEP)) + 1
    while len(ratios) < MOST_PAIRS:
        for _ in range(STEP if not ratios else len(ratios)):
            number = len(ratios)
            order = (0, 1) if number // 8 % 2 else (1, 0)
            times = {who: gun.sample(made[who][number % 8]) - baseline for who in order}
            ratios.append(math.log(times[1] / times[0]))
        mean, half = interval(ratios, ERROR / looks)
        if abs(mean) > half:
            break
    return {"ratio": math.exp(mean), "half": half, "pairs": len(ratios), "apart": abs(mean) > half}


def interval(values, error):
    """Return a trimmed mean and half of its interval."""
    kept = sorted(values)[len(values) // 10 : len(values) - len(values) // 10]
    mean = statistics.fmean(kept)
    low, high = kept[0], kept[-1]
    clipped = [min(high, max(low, each)) for each in values]
    error_of_mean = statistics.stdev(clipped) / (0.8 * math.sqrt(len(values)))
    return mean, statistics.NormalDist().inv_cdf(1 - error / 2) * error_of_mean


def export(shared, name):
    """Have a contestant export a case; return what its timers need, with memory that outlives it."""
    import torch

    from kernelcup_harness.replay.pool import bytes_at

    case = replay_cases.CASES[name]
    process, sock, _ = member = probe.start("contestant", name)
    places, nbytes = probe.layout(name)
    inputs, inputs_fd = shared.create(window.WINDOW, nbytes)
    work, work_fd = shared.create(window.WINDOW + nbytes, probe.HEAP)
    for row in places:
        for (at, size), (shape, dtype) in zip(row, case.inputs, strict=True):
            probe.fill(torch, bytes_at(at, size).view(getattr(torch, dtype)).view(shape), 1)
    torch.cuda.synchronize()
    probe.talk(sock, {}, [inputs_fd, work_fd])
    told, fds = probe.listen(sock)
    path = f"/tmp/capture-{name}"
    Path(path).write_bytes(Path(f"/proc/self/fd/{fds[0]}").read_bytes())
    probe.talk(sock, {})
    events, _ = probe.listen(sock)
    process.kill()
    process.wait()
    member[2].close()
    for region in (inputs, work):
        shared.unmap(region)
    return {
        "path": path,
        "fds": [inputs_fd, work_fd],
        "inputs": nbytes,
        "name": name,
        "events_us": statistics.median(events["events_us"]),
        "steps": told["steps"],
    }


def run(exported, *others):
    """Start a fresh timer, and return what it answers."""
    ours, theirs = probe.socket.socketpair()
    command = [sys.executable, str(HERE), "timer", str(theirs.fileno())]
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
    theirs.close()
    captures = [exported["path"], *(each["path"] for each in others)]
    probe.talk(ours, {"inputs": exported["inputs"], "captures": captures}, exported["fds"])
    try:
        answer, _ = probe.listen(ours, 30)
    except (EOFError, OSError) as error:
        answer = {"failed": repr(error)}
    process.kill()
    process.wait()
    ours.close()
    return answer


def main():
    if sys.argv[1] == "timer":
        timer(probe.socket.socket(fileno=int(sys.argv[2])))
        return
    out, until = Path(sys.argv[1]), time.time() + float(sys.argv[2])
    import torch

    driver = Driver()
    driver.make_context()
    shared = window.Window(driver)
    torch.cuda.init()
    found = {"device": torch.cuda.get_device_name(0), "exports": [], "times": {}, "duels": {}}
    exported = {}
    kernels = () if "duels" in sys.argv else KERNELS
    names = dict.fromkeys((*kernels, *(each for pair in DUELS for each in pair)))
    for name in names:
        exported[name] = export(shared, name)
        found["exports"].append({key: exported[name][key] for key in ("name", "events_us", "steps")})
    for name in kernels:
        rows = found["times"][name] = [run(exported[name]) for _ in range(PROCESSES) if time.time() < until]
        out.write_text(json.dumps(found))
        print_times(name, rows, exported[name]["events_us"])
    for pair in DUELS:
        # Both use the window of the first: they have the same inputs, at the same addresses.
        mine, other = (exported[each] for each in pair)
        rows = found["duels"]["~".join(pair)] = [
            run(mine, other) for _ in range(FIGHTS) if time.time() < until
        ]
        out.write_text(json.dumps(found))
        print_duels(pair, [each for each in rows if "ratio" in each])


def print_times(name, rows, events_us):
    """Print how far the times of one kernel differ between processes."""
    centres = [statistics.median(each["ns"]) / 1e3 for each in rows if "ns" in each]
    if len(centres) > 1:
        spread = statistics.stdev(centres) / statistics.fmean(centres)
        print(
            f"{name}: {statistics.fmean(centres):.3f} us, CV {spread:.2%} of {len(centres)},"
            f" events {events_us:.2f}, ready {rows[-1]['ready_s']:.2f} s",
            flush=True,
        )


def print_duels(pair, told):
    """Print the outcomes of the duels of one pair."""
    if len(told) < 2:
        return
    ratios = [each["ratio"] for each in told]
    slower = sum(each["apart"] and each["ratio"] > 1 for each in told)
    faster = sum(each["apart"] and each["ratio"] < 1 for each in told)
    print(
        f"{pair}: {slower} slower, {faster} faster of {len(told)}; mean ratio {statistics.fmean(ratios):.4f},"
        f" sd {statistics.stdev(ratios):.4f}, pairs {statistics.median(each['pairs'] for each in told)},"
        f" {max(each['measured_s'] for each in told):.2f} s",
        flush=True,
    )


if __name__ == "__main__":
    main()
