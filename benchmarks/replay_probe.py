"""Try the replay of captured calls on a GPU: contestant, timer and judge as three processes.

    python3 benchmarks/replay_probe.py OUT.json CASE,CASE,... LIMIT_S

For each case it says whether the call was captured, exported, rebuilt and right on fresh inputs, the start gun's
figure beside that of CUDA events in the contestant, and what each step took. Needs torch and one NVIDIA GPU.
"""

from __future__ import annotations

import array
import json
import os
import socket
import statistics
import subprocess
import sys
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[1] / "src"), str(HERE.parent)]

import replay_cases  # noqa: E402

from kernelcup_harness.device.nvidia import window  # noqa: E402
from kernelcup_harness.device.nvidia.driver import Driver  # noqa: E402
from kernelcup_harness.window import addresses  # noqa: E402

PLACES = 4
SAMPLES = 48
HEAP = int(os.environ.get("REPLAY_HEAP", 4 << 30))
SWEEP = 256 << 20


def layout(name):
    """Return the addresses of each place's inputs, and the range of the inputs."""
    import torch

    case = replay_cases.CASES[name]
    at, places = addresses.WINDOW, []
    for _ in range(PLACES):
        row = []
        for shape, dtype in case.inputs:
            nbytes = getattr(torch, dtype).itemsize
            for side in shape:
                nbytes *= side
            row.append((at, nbytes))
            at += -(-nbytes // 4096) * 4096
        places.append(row)
    return places, addresses.granules(at - addresses.WINDOW)


def talk(sock, message, fds=()):
    data = json.dumps(message).encode()
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    sock.sendmsg([len(data).to_bytes(8, "big")], ancillary)
    sock.sendall(data)


def listen(sock, timeout=120.0):
    sock.settimeout(timeout)
    head, ancillary, *_ = sock.recvmsg(8, socket.CMSG_SPACE(16))
    if len(head) < 8:
        raise EOFError("the other side is gone")
    length, data = int.from_bytes(head, "big"), b""
    while len(data) < length:
        part = sock.recv(length - len(data))
        if not part:
            raise EOFError("the other side is gone")
        data += part
    fds = array.array("i")
    for _, _, payload in ancillary:
        fds.frombytes(payload)
    return json.loads(data), list(fds)


def timed(steps, name):
    class Timer:
        def __enter__(self):
            self.begin = time.perf_counter()

        def __exit__(self, *_):
            steps[name] = round(time.perf_counter() - self.begin, 4)

    return Timer()


def contestant(sock, name):
    steps = {}
    from kernelcup_harness.device.nvidia.images import ImageKeeper

    with timed(steps, "import"):
        import torch
    with timed(steps, "cupti"):
        keeper = ImageKeeper()
    case = replay_cases.CASES[name]
    _, fds = listen(sock)
    driver = Driver()
    with timed(steps, "context"):
        driver.make_context()
        torch.cuda.init()
    places, nbytes = layout(name)
    shared = window.Window(driver)
    shared.attach(fds[0], addresses.WINDOW, nbytes)
    work = shared.attach(fds[1], addresses.WINDOW + nbytes, HEAP)
    from kernelcup_harness.device.nvidia import export, hands, own_graphs
    from kernelcup_harness.window import allocator, graph_data

    window_pool = allocator.WindowPool(allocator.Heap(work.address, work.nbytes))
    own_pool = window_pool.more()
    own_graphs.keep_graphs(driver, own_pool)
    stream = torch.cuda.Stream()
    data = [
        [
            allocator.bytes_at(*place).view(getattr(torch, dtype)).view(shape)
            for place, (shape, dtype) in zip(row, case.inputs, strict=True)
        ]
        for row in places
    ]
    with timed(steps, "submission"), window_pool.in_use():
        call = case.build()
    calls = [lambda row=row: call(*row) for row in data]
    with timed(steps, "warm_up"):
        hands.warm_up(calls, window_pool, stream)
    with timed(steps, "capture"):
        made = hands.capture(calls, window_pool, stream)
    exporter = export.Exporter(driver, keeper.loaded, [range(addresses.WINDOW, work.address + work.nbytes)])
    with timed(steps, "export"):
        found = exporter.capture(made.graphs)
    with timed(steps, "encode"):
        encoded = graph_data.encode(found)
    fd = os.memfd_create("capture")
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(encoded)
    outputs = [
        {
            "at": each.data_ptr(),
            "nbytes": each.numel() * each.element_size(),
            "shape": list(each.shape),
            "dtype": str(each.dtype)[6:],
            "dense": each.is_contiguous(),
        }
        for each in made.values
    ]
    kinds = {}
    for graph in found.graphs[:1]:
        for node in graph.nodes:
            kinds[type(node).__name__] = kinds.get(type(node).__name__, 0) + 1
    talk(
        sock,
        {
            "outputs": outputs,
            "steps": steps,
            "bytes": len(encoded),
            "foreign": sorted(exporter.foreign),
            "kinds": kinds,
            "images": [len(each.code) for each in found.images],
            "variables": sum(len(each.variables) for each in found.images),
            "peak": window_pool.heap.peak,
        },
        [fd],
    )
    # Event times of the same graphs in this process: an ordinary measurement.
    sweep = torch.empty(SWEEP // 4, dtype=torch.int32, device="cuda")
    graphs = made.keep[::2]
    for each in graphs:
        each.instantiate()
    plain = torch._C._CUDAGraph.replay
    while True:
        listen(sock, 600)
        samples = []
        with torch.cuda.stream(stream):
            for number in range(SAMPLES):
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                torch.cuda._sleep(600_000)
                sweep.fill_(number)
                begin.record(stream)
                plain(graphs[number % PLACES])
                end.record(stream)
                end.synchronize()
                samples.append(begin.elapsed_time(end) * 1e3)
        talk(sock, {"events_us": samples})


def timer(sock, _name):
    steps = {}
    from kernelcup_harness.device.nvidia import rebuild, start_gun
    from kernelcup_harness.window import decoding

    driver = Driver()
    with timed(steps, "context"):
        context = driver.make_context()
    ask, fds = listen(sock)
    with timed(steps, "window"):
        shared = window.Window(driver)
        access = window.READ_WRITE if ask["writes"] else window.READ
        inputs = shared.attach(fds[0], addresses.WINDOW, ask["inputs"], access=access)
        work = shared.attach(fds[1], addresses.WINDOW + ask["inputs"], HEAP)
    sweep = driver.handle("cuMemAlloc_v2", __import__("ctypes").c_size_t(SWEEP))
    gun = start_gun.StartGun(driver, (sweep, SWEEP))
    empty = gun.empty_graph()
    talk(sock, {"steps": steps})
    steps["page"] = hex(gun._page)
    ask, fds = listen(sock, 300)
    with timed(steps, "decode"), open(fds[0], "rb") as file:
        file.seek(0)
        found = decoding.decode(file.read())
    with timed(steps, "rebuild"):
        inside = [each.addresses for each in (inputs, work)]
        builder = rebuild.GraphBuilder(driver, context, inside)
        made = builder.build(found)
    talk(sock, {"steps": steps, "dropped": made.dropped})
    while True:
        ask, _ = listen(sock, 600)
        if ask["do"] == "launch":
            found_ns = [gun.sample(made.executables[place]) for place in ask["places"]]
            talk(sock, {"ns": found_ns})
        elif ask["do"] == "time":
            with timed(steps, "samples"):
                samples = gun.samples(made.executables, SAMPLES)
            empties = gun.samples([empty], SAMPLES)
            gun.check()
            few = min(gun.series_ns(made.executables * 2) for _ in range(3))
            many = min(gun.series_ns(made.executables * 18) for _ in range(3))
            talk(sock, {"ns": samples, "empty_ns": empties, "steps": steps, "series_us": (many - few) / 64e3})


def start(role, name):
    ours, theirs = socket.socketpair()
    errors = open(f"/tmp/replay-{name}-{role}.err", "w+")  # noqa: SIM115  closed with the process
    process = subprocess.Popen(
        [sys.executable, str(HERE), role, name, str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        stdout=errors,
        stderr=errors,
        env={**os.environ, "TORCH_EXTENSIONS_DIR": f"/tmp/ext-{name}"},
    )
    theirs.close()
    return process, ours, errors


def judge(name, members, limit, shared):  # noqa: C901  one step after the other
    """Play one case and return what was found."""
    import torch

    from kernelcup_harness.window.allocator import bytes_at

    case = replay_cases.CASES[name]
    found = {"case": name}
    places, nbytes = layout(name)
    (contestant_process, to_contestant, _), (_, to_timer, _) = members
    inputs, inputs_fd = shared.create(addresses.WINDOW, nbytes)
    work, work_fd = shared.create(addresses.WINDOW + nbytes, HEAP)
    try:
        for row in places:
            for (at, size), (shape, dtype) in zip(row, case.inputs, strict=True):
                fill(torch, bytes_at(at, size).view(getattr(torch, dtype)).view(shape), 1)
        torch.cuda.synchronize()
        talk(to_contestant, {}, [inputs_fd, work_fd])
        talk(to_timer, {"inputs": nbytes, "writes": case.writes}, [inputs_fd, work_fd])
        listen(to_timer, limit)
        told, fds = listen(to_contestant, limit)
        found["contestant"] = {key: value for key, value in told.items() if key != "outputs"}
        talk(to_timer, {}, fds)
        built, _ = listen(to_timer, limit)
        found["timer"] = built
        outputs = [
            bytes_at(each["at"], each["nbytes"]).view(getattr(torch, each["dtype"])).view(each["shape"])
            for each in told["outputs"]
        ]

        def check(seed, order):
            rights = []
            for place, row in enumerate(places):
                values = [
                    bytes_at(*at).view(getattr(torch, dtype)).view(shape)
                    for at, (shape, dtype) in zip(row, case.inputs, strict=True)
                ]
                for number, value in enumerate(values):
                    fill(torch, value, seed * 100 + place * 10 + number)
                rights.append(case.right(*values))
                bytes_at(told["outputs"][place]["at"], told["outputs"][place]["nbytes"]).fill_(255)
            torch.cuda.synchronize()
            talk(to_timer, {"do": "launch", "places": order})
            listen(to_timer, limit)
            errors = [
                ((mine.float() - right.float()).abs() / (1 + right.float().abs())).max().item()
                for mine, right in zip(outputs, rights, strict=True)
            ]
            return [round(each, 5) for each in errors]

        found["errors"] = [check(2, [0, 1, 2, 3]), check(3, [3, 2, 1, 0])]
        found["right"] = all(each <= case.tolerance for row in found["errors"] for each in row)
        found["rounds"] = []
        for _ in range(3):
            talk(to_contestant, {})
            events, _ = listen(to_contestant, limit)
            talk(to_timer, {"do": "time"})
            ours, _ = listen(to_timer, limit)
            found["rounds"].append(summary(events["events_us"], ours))
        contestant_process.kill()
        contestant_process.wait()
        found["errors"].append(check(4, [2, 0, 3, 1]))
        talk(to_timer, {"do": "time"})
        ours, _ = listen(to_timer, limit)
        found["alone"] = summary([], ours)
    except Exception:
        found["failed"] = traceback.format_exc()[-800:]
        for who, (process, _, errors) in zip(("contestant", "timer"), members, strict=True):
            process.kill()
            process.wait()
            errors.seek(0)
            found[f"{who}_said"] = errors.read()[-1500:]
    finally:
        for process, sock, _ in members:
            process.kill()
            process.wait()
            sock.close()
        torch.cuda.synchronize()
        for region, fd in ((inputs, inputs_fd), (work, work_fd)):
            os.close(fd)
            shared.unmap(region)
    return found


def summary(events_us, ours):
    gun = statistics.median(ours["ns"]) - statistics.median(ours["empty_ns"])
    return {
        "gun_us": round(gun / 1e3, 3),
        "empty_us": round(statistics.median(ours["empty_ns"]) / 1e3, 3),
        "events_us": round(statistics.median(events_us), 3) if events_us else None,
        "series_us": round(ours["series_us"], 3),
        "steps": ours["steps"],
        "quartiles_us": [round(each / 1e3, 3) for each in statistics.quantiles(ours["ns"], n=4)],
    }


def fill(torch, tensor, seed):
    generator = torch.Generator("cuda").manual_seed(seed)
    tensor.copy_(torch.randn(tensor.shape, generator=generator, device="cuda"))


def main():
    if sys.argv[1] in ("contestant", "timer"):
        role, name, fd = sys.argv[1:4]
        {"contestant": contestant, "timer": timer}[role](socket.socket(fileno=int(fd)), name)
        return
    out, names, limit = Path(sys.argv[1]), sys.argv[2].split(","), float(sys.argv[3])
    until = time.time() + limit
    members = {name: (start("contestant", name), start("timer", name)) for name in names[:3]}
    found = []
    driver = Driver()
    driver.make_context()
    shared = window.Window(driver)
    for number, name in enumerate(names):
        if time.time() > until:
            break
        for later in names[number + 1 : number + 4]:
            if later not in members:
                members[later] = (start("contestant", later), start("timer", later))
        row = judge(name, members[name], min(90.0, max(5.0, until - time.time())), shared)
        found.append(row)
        out.write_text(json.dumps(found, indent=1))
        print(
            json.dumps({key: row.get(key) for key in ("case", "right", "failed")}),
            [(each["gun_us"], each["events_us"], each["series_us"]) for each in row.get("rounds", [])],
            row.get("alone", {}).get("gun_us"),
            flush=True,
        )
        if "failed" in row:
            print(row.get("contestant_said", "")[-700:], row.get("timer_said", "")[-500:], flush=True)
    for pair in members.values():
        for process, *_ in pair:
            process.kill()


if __name__ == "__main__":
    main()
