"""What ``ncu`` can do here, and the counters of ``profile_kernels.py``: run it on a GPU machine with one command.

    python3 benchmarks/profile_jobs.py OUT [SECONDS] [PART...]

PART is kernels, second (those that were written after the rules), jobs, timer, called; all by default.

A contestant captures and exports a call in the window, as in a job; a timer rebuilds and launches it under ``ncu``, in
several ways. Everything is tried in one run, and each failure leaves its output. Writes ``OUT/summary.json``, the raw
pages as ``OUT/*.csv.gz``, and ``OUT/kernels.json``. Needs torch, Triton and ncu.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "benchmarks")]
HEAP_BYTES = 2 << 30
ONE_RUN_S = 200.0
FLAGS = ["--profile-from-start", "off", "--clock-control", "none"]
NODES = ["--graph-profiling", "node"]
FULL = ["--set", "full"]
METRICS = ",".join(
    (
        "gpu__time_duration.sum",
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
        "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        "sm__warps_active.avg.pct_of_peak_sustained_active",
        "dram__bytes_read.sum",
        "dram__bytes_write.sum",
    )
)


# The processes that are profiled


def contestant(name: str, folder: Path, fd: int) -> None:
    """Capture one call in a window of its own, export it, and say after each line of input whether it was replayed."""
    from kernelcup_harness.device.nvidia.hands import GpuHands
    from kernelcup_harness.window.addresses import WINDOW

    hands = GpuHands()
    import torch
    from clean_room_cases import CASES

    case = CASES[name]
    region, shared = hands._window.create(WINDOW, HEAP_BYTES)
    hands._regions.append(region.addresses)
    hands.use_heap(region.address, region.nbytes)
    with hands.in_use():
        inputs = [torch.randn(shape, device="cuda").to(getattr(torch, dtype)) for shape, dtype in case.inputs]
        call = case.build()
    (answer,) = hands.capture([lambda: call(*inputs)])
    data, _ = hands.export()
    (folder / f"{name}.graph").write_bytes(data)
    right = case.right(*inputs)
    answer.zero_()
    torch.cuda.synchronize()
    used = hands._pool.heap.peak
    hands.view(WINDOW, used).cpu().numpy().tofile(folder / f"{name}.memory")
    socket.send_fds(socket.socket(fileno=fd), [b"x"], [shared])
    print(json.dumps({"used": used, "graph": len(data)}), flush=True)
    for _ in sys.stdin:
        torch.cuda.synchronize()
        error = ((answer.float() - right.float()).abs() / (1 + right.float().abs())).max().item()
        answer.zero_()
        torch.cuda.synchronize()
        print(json.dumps({"right": error <= case.tolerance, "error": error}), flush=True)


def timer(name: str, folder: Path, how: str, ending: str) -> None:
    """Rebuild a call and launch it once between the profiler's start and stop."""
    import ctypes

    from kernelcup_harness.device.nvidia.engine import GpuEngine
    from kernelcup_harness.window.addresses import WINDOW
    from kernelcup_harness.window.messages import Access, SharedRegion

    engine = GpuEngine()
    driver = engine._driver
    if how == "own":
        region, _ = engine._window.create(WINDOW, HEAP_BYTES)
        engine._regions.append(region)
        memory = (folder / f"{name}.memory").read_bytes()
        driver("cuMemcpyHtoD_v2", ctypes.c_uint64(WINDOW), memory, ctypes.c_size_t(len(memory)))
    else:
        if how.startswith("/"):
            line = socket.socket(socket.AF_UNIX)
            line.connect(how)
        else:
            line = socket.socket(fileno=int(how))
        _, (fd, *_), *_ = socket.recv_fds(line, 1, 1)
        engine.attach(SharedRegion(address=WINDOW, bytes=HEAP_BYTES, access=Access.WRITE), fd)
    made = engine.load((folder / f"{name}.graph").read_bytes())
    if ending != "all":
        driver("cuProfilerStart")
    engine.launch([(0, 0)])
    if ending != "all":
        driver("cuProfilerStop")
    print(f"launched {made.nodes} nodes", flush=True)
    if ending == "_exit":
        os._exit(0)


def direct(name: str) -> None:
    """Call a submission as the contestant does, and profile its fourth call."""
    import torch
    from clean_room_cases import CASES

    case = CASES[name]
    inputs = [torch.randn(shape, device="cuda").to(getattr(torch, dtype)) for shape, dtype in case.inputs]
    call = case.build()
    for _ in range(3):
        call(*inputs)
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    call(*inputs)
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()
    print("called", flush=True)
    os._exit(0)


MARK = 'extern "C" __global__ void mark_{name}(int* o) {{ if (o) *o = 1; }}'


def kernels(folder: Path, part: str) -> None:
    """Call each kernel of ``profile_kernels.py`` once between the profiler's start and stop, behind a marker."""
    import torch
    from profile_kernels import FAULTY, GOOD, KERNELS, SECOND

    found = {}
    for name in SECOND if part == "second" else {**FAULTY, **GOOD}:
        try:
            call, nbytes = KERNELS[name].build()
            mark = torch.cuda._compile_kernel(MARK.format(name=name), f"mark_{name}")
            word = torch.zeros(1, device="cuda", dtype=torch.int32)
            times = []
            for number in range(12):
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                call()
                end.record()
                torch.cuda.synchronize()
                if number >= 4:
                    times.append(begin.elapsed_time(end) * 1e6)
            found[name] = {
                "fault": KERNELS[name].fault,
                "bytes": nbytes,
                "call_ns": sorted(times)[len(times) // 2],
            }
            torch.cuda.profiler.start()
            mark(args=[word])
            call()
            torch.cuda.synchronize()
            torch.cuda.profiler.stop()
        except Exception as error:
            found[name] = {"error": f"{type(error).__name__}: {error}"[:600]}
        (folder / f"{part}.json").write_text(json.dumps(found, indent=1))
        torch.cuda.empty_cache()
    os._exit(0)


def around(fd: int, argv: list[str]) -> None:
    """Run ncu in a sandbox, and write its report to a descriptor."""
    before = time.monotonic()
    done = subprocess.run(argv, close_fds=False, check=False)
    print(f"ncu ended with {done.returncode} after {time.monotonic() - before:.1f} s", flush=True)
    report = Path("/tmp/report.ncu-rep")
    if report.exists():
        os.write(1, b"report is there\n")
        with open(fd, "wb") as target:
            target.write(report.read_bytes())


# The orchestrator


def me(role: str, *arguments: object) -> list[str]:
    return [sys.executable, str(Path(__file__).resolve()), "--role", role, *map(str, arguments)]


class Experiment:
    """All runs, and the summary."""

    def __init__(self, out: Path, seconds: float) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self.out = out
        self.until = time.monotonic() + seconds
        self.work = Path(tempfile.mkdtemp(prefix="kernelcup-profile-"))
        self.work.chmod(0o755)
        self.ncu = shutil.which("ncu") or "/usr/local/cuda/bin/ncu"
        self.summary: dict[str, Any] = {"runs": {}}
        self.contestant: subprocess.Popen[str] | None = None
        self.fd = -1

    def save(self) -> None:
        (self.out / "summary.json").write_text(json.dumps(self.summary, indent=1))

    def told(self, *argv: str, most: int = 4000) -> str:
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
            return (done.stdout + done.stderr)[:most]
        except (OSError, subprocess.SubprocessError) as error:
            return str(error)

    def facts(self) -> None:
        self.summary["machine"] = {
            "ncu": self.told(self.ncu, "--version"),
            "real": os.path.realpath(self.ncu),
            "script": self.told("head", "-c", "600", self.ncu)
            if Path(self.ncu).stat().st_size < 9000
            else "",
            "gpu": self.told("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"),
            "params": self.told("grep", "-i", "prof", "/proc/driver/nvidia/params"),
            "user": os.getuid(),
            "sets": self.told(self.ncu, "--list-sets"),
        }
        (self.out / "help.txt.gz").write_bytes(
            gzip.compress(self.told(self.ncu, "--help", most=200_000).encode(), mtime=0)
        )
        self.save()

    def open(self, name: str) -> None:
        """Start a contestant."""
        ours, theirs = socket.socketpair()
        self.contestant = subprocess.Popen(
            me("contestant", name, self.work, theirs.fileno()),
            pass_fds=[theirs.fileno()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(self.out / f"contestant-{name}.txt").open("w"),
            text=True,
        )
        theirs.close()
        line = self.contestant.stdout.readline()
        self.summary["runs"][f"{name}/contestant"] = json.loads(line or '"failed"')
        self.fd = socket.recv_fds(ours, 1, 1)[1][0] if line else os.open(os.devnull, os.O_RDONLY)
        for file in self.work.iterdir():
            file.chmod(0o644)

    def shut(self) -> None:
        if self.contestant is not None:
            self.contestant.kill()
            self.contestant.wait()
            os.close(self.fd)
            self.contestant = None

    def is_right(self) -> Any:
        """Ask the contestant whether its answer is there, and have it cleared."""
        if self.contestant is None:
            return None
        self.contestant.stdin.write("\n")
        self.contestant.stdin.flush()
        return json.loads(self.contestant.stdout.readline())

    def run(self, label: str, flags: list[str], target: list[str], *, box: str = "", live: str = "") -> bool:
        """Run ncu over a target, note everything, and return whether it profiled something."""
        if time.monotonic() > self.until:
            self.summary["runs"][label] = "no time"
            return False
        name = label.replace("/", "-")
        report = self.work / f"{name}.ncu-rep"
        note: dict[str, Any] = {"flags": flags, "box": box}
        before = time.monotonic()
        try:
            note |= self._run(report, flags, target, box, live)
            if live:
                note["answer"] = self.is_right()
        except Exception as error:
            note["error"] = f"{type(error).__name__}: {error}"[:3000]
        note["seconds"] = round(time.monotonic() - before, 2)
        if report.exists() and report.stat().st_size:
            note |= self.imported(report, name)
        self.summary["runs"][label] = note
        self.save()
        print(label, note.get("rc"), note["seconds"], note.get("bytes"), note.get("kernels"), flush=True)
        return bool(note.get("rows"))

    def _run(self, report: Path, flags: list[str], target: list[str], box: str, live: str) -> dict[str, Any]:
        fds: list[int] = []
        lines: list[socket.socket] = []
        if live == "inherited":
            ours, theirs = socket.socketpair()
            socket.send_fds(ours, [b"x"], [self.fd])
            target = [theirs.fileno().__str__() if each == "FD" else each for each in target]
            fds, lines = [theirs.fileno()], [ours, theirs]
        elif live == "path":
            place = self.work / f"{report.stem}.socket"
            server = socket.socket(socket.AF_UNIX)
            server.bind(str(place))
            server.listen()
            lines = [server]
            target = [str(place) if each == "FD" else each for each in target]
            server.settimeout(60.0)
            threading.Thread(target=self.serve, args=(server,), daemon=True).start()
        try:
            if box:
                return self._boxed(report, flags, target, box, fds)
            argv = [self.ncu, *flags, "-f", "-o", str(report.with_suffix("")), *target]
            done = subprocess.run(
                argv, capture_output=True, text=True, timeout=ONE_RUN_S, pass_fds=fds, check=False
            )
            return {"rc": done.returncode, "out": done.stdout[-3000:], "err": done.stderr[-3000:]}
        finally:
            for line in lines:
                line.close()

    def serve(self, server: socket.socket) -> None:
        """Give the descriptor to the first who asks."""
        try:
            line, _ = server.accept()
            socket.send_fds(line, [b"x"], [self.fd])
        except OSError:
            pass

    def _boxed(
        self, report: Path, flags: list[str], target: list[str], box: str, fds: list[int]
    ) -> dict[str, Any]:
        from kernelcup_harness.isolation import layout, processes, sandbox

        files = self.work / f"files-{report.stem}"
        files.mkdir()
        shown = (str(ROOT / "benchmarks"), str(ROOT / "src"), str(self.work))
        place = Path(self.ncu).resolve().parent
        if not str(place).startswith(("/usr", "/opt/nvidia")):
            shown += (str(place),)
        made = sandbox.Sandbox(
            user_id=layout.TIMER_ID, files=files, gpu=True, visible=shown, network="network" in box
        )
        environment = processes.clean_environment(None, os.environ) | {"KERNELCUP_BACKEND": "cuda"}
        with report.open("wb") as target_file:
            target_file.close()
            fd = os.open(report, os.O_WRONLY)
            argv = [self.ncu, *flags, "-f", "-o", "/tmp/report", *target]
            plain = sandbox.prepare
            if "open" in box:

                def prepare(*each: Any) -> Any:
                    prepared = plain(*each)
                    at = prepared.argv.index("--seccomp")
                    del prepared.argv[at : at + 2]
                    return prepared

                sandbox.prepare = prepare
            try:
                child = processes.start(
                    me("around", fd, *argv),
                    cwd=files,
                    environment=environment,
                    fds=[fd, *fds],
                    keep_output=1 << 16,
                    cap_output=1 << 24,
                    box=made,
                )
            finally:
                sandbox.prepare = plain
                os.close(fd)
            code = child.wait(ONE_RUN_S)
            if code is None:
                child.kill("time")
            return {
                "rc": code,
                "out": child.stdout.finish().text[-3000:],
                "err": child.stderr.finish().text[-3000:],
                "sandbox": sandbox.describe(),
            }

    def imported(self, report: Path, name: str) -> dict[str, Any]:
        """Import a report as CSV and store it."""
        note: dict[str, Any] = {"bytes": report.stat().st_size}
        note["gzipped"] = len(gzip.compress(report.read_bytes(), 6, mtime=0))
        before = time.monotonic()
        argv = [self.ncu, "--import", str(report), "--csv", "--page", "raw", "--print-units", "base"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
        note["import_s"] = round(time.monotonic() - before, 2)
        note["csv_bytes"] = len(done.stdout)
        note["import_err"] = done.stderr[-1000:]
        if len(done.stdout) < (24 << 20):
            (self.out / f"{name}.csv.gz").write_bytes(gzip.compress(done.stdout.encode(), 9, mtime=0))
        rows = list(csv.DictReader(io.StringIO(done.stdout[max(0, done.stdout.find('"ID"')) :])))[1:]
        wanted = [each for each in rows[0] if "time_duration.sum" in each] if rows else []
        note["rows"] = len(rows)
        note["columns"] = len(rows[0]) if rows else 0
        note["kernels"] = [
            [each.get("Kernel Name", "")[:60], each.get("Grid Size"), *(each[key] for key in wanted)]
            for each in rows[:50]
        ]
        note["nan"] = sorted(
            {key for each in rows for key, value in each.items() if str(value).lower() == "nan"}
        )[:40]
        return note

    def details(self, label: str) -> None:
        """Store the page that people read."""
        report = self.work / f"{label}.ncu-rep"
        if report.exists():
            text = self.told(self.ncu, "--import", str(report), "--page", "details", most=400_000)
            (self.out / f"{label}-details.txt.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
            text = self.told(self.ncu, "--import", str(report), "--page", "details", "--csv", most=400_000)
            (self.out / f"{label}-details.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


PARTS = ("kernels", "second", "jobs", "timer", "called")


def main(out: Path, seconds: float, parts: Sequence[str]) -> None:
    """Try everything, the most important first."""
    found = Experiment(out, seconds)
    found.facts()
    for part in ("kernels", "second"):
        if part in parts:
            found.run(part, [*FLAGS, *FULL], me("kernels", found.out, part))
    if "jobs" in parts:
        try:
            jobs(found)
        except Exception as error:
            found.summary["jobs"] = f"{type(error).__name__}: {error}"
    if "timer" in parts:
        over_timer(found)
    if "called" in parts:
        # What cannot be replayed: the contestant itself, in and outside of its sandbox.
        found.run("item/direct", [*FLAGS, *FULL], me("direct", "item"))
        found.run("item/direct-box", [*FLAGS, *FULL], me("direct", "item"), box="plain")
        sampled(found)
    shutil.rmtree(found.work, ignore_errors=True)
    found.save()


def over_timer(found: Experiment) -> None:
    """Try ncu over the timer in several ways, also in the sandbox."""

    def over(name: str, how: str = "FD", ending: str = "_exit") -> list[str]:
        return me("timer", name, found.work, how, ending)

    full = [*NODES, *FLAGS, *FULL]
    shmem = ["--communicator", "shmem"]
    found.open("triton")
    live = found.run("triton/live", full, over("triton"), live="inherited")
    if not live:
        found.run("triton/path", full, over("triton"), live="path")
        found.run(
            "triton/graph", ["--graph-profiling", "graph", *FLAGS, *FULL], over("triton"), live="inherited"
        )
        found.run("triton/end", full, over("triton", ending="end"), live="inherited")
    found.run("triton/own", full, over("triton", "own"))
    found.details("triton-live" if live else "triton-own")
    # In the sandbox: which part of it is in the way, if any.
    for box, more in (("plain", []), ("network", []), ("plain", shmem), ("network", shmem)):
        label = f"triton/box-{box}{'-shmem' if more else ''}"
        if found.run(label, [*more, *full], over("triton"), box=box, live="inherited") and box == "plain":
            break
    else:
        found.run("triton/box-open", full, over("triton"), box="open network", live="inherited")
    found.run(
        "triton/all",
        [*NODES, "--clock-control", "none", "--set", "basic"],
        over("triton", ending="all"),
        live="inherited",
    )
    for name in ("basic", "detailed"):
        found.run(f"triton/{name}", [*NODES, *FLAGS, "--set", name], over("triton"), live="inherited")
    found.run("triton/metrics", [*NODES, *FLAGS, "--metrics", METRICS], over("triton"), live="inherited")
    found.run("triton/named", [*full, "-k", "regex:fma", "-c", "1"], over("triton"), live="inherited")
    found.run("triton/none", [*full, "-k", "regex:nothing"], over("triton"), live="inherited")
    found.shut()
    for name in ("matmul", "aten", "splitk", "dependent"):
        found.open(name)
        found.run(f"{name}/live", full, over(name), live="inherited")
        if name in ("matmul", "aten"):
            found.run(f"{name}/own", full, over(name, "own"))
        found.shut()


JOBS = (
    ("cuda", "profile"),
    ("triton", "leaderboard"),
    ("triton", "profile"),
    ("triton", "leaderboard"),
    ("matmul", "profile"),
    ("aten", "profile"),
    ("item", "profile"),
    ("triton", "test"),
)
"""Whole jobs by the harness: the witness has to work after a profile as before it."""


def jobs(found: Experiment) -> None:
    """Run whole jobs, and note what their profiles hold."""
    import cuda_jobs
    from clean_room_jobs import spec_of

    from kernelcup_harness.protocol import Backend, Mode, dumps

    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    for number, (name, mode) in enumerate(JOBS):
        label = f"job/{number}-{name}-{mode}"
        if time.monotonic() > found.until:
            found.summary["runs"][label] = "no time"
            continue
        before = time.monotonic()
        asked = Mode(mode)
        job = cuda_jobs.spec_of("add", mode=asked) if name == "cuda" else spec_of(name, asked, Backend.CUDA)
        spec = dumps(job)
        argv = [sys.executable, "-m", "kernelcup_harness", "-"]
        done = subprocess.run(
            argv, input=spec, capture_output=True, text=True, env=environment, timeout=400, check=False
        )
        note: dict[str, Any] = {"seconds": round(time.monotonic() - before, 2), "err": done.stderr[-2500:]}
        try:
            report = json.loads(done.stdout.strip().splitlines()[-1])["report"]
            counters = report.get("counters") or {}
            for file in counters.get("files", []):
                file["gzipped"] = len(file.pop("gz64")) * 3 // 4
            note |= {key: report.get(key) for key in ("verdict", "message", "trust", "phases", "ran")}
            note |= {"room": report["environment"].get("clean_room"), "counters": counters}
            case = report["stages"][-1]["cases"][-1] if report["stages"][-1]["cases"] else {}
            note["trace"] = len(case.get("trace_gz64") or "")
            note["table"] = (case.get("profile") or "")[:1500]
        except (ValueError, IndexError, KeyError) as error:
            note["error"] = f"{type(error).__name__}: {error}; {done.stdout[-1500:]}"
        found.summary["runs"][label] = note
        found.save()
        shown = note.get("counters") or {}
        print(label, note["seconds"], note.get("verdict"), shown.get("trouble"), shown.get("not_replayed"))


def sampled(found: Experiment) -> None:
    """Profile while the witness's sampler is at work, and try the sampler afterwards."""
    code = f"import sys, time; sys.path.insert(0, {str(ROOT / 'src')!r})\n"
    code += "from kernelcup_harness.witness_process import sampler, trouble\n"
    holding = code + "held = sampler(); print('on', flush=True); time.sleep(100)"
    holder = subprocess.Popen([sys.executable, "-c", holding], stdout=subprocess.PIPE, text=True)
    found.summary["sampler"] = holder.stdout.readline().strip()
    found.run("item/while-sampled", [*FLAGS, "--set", "basic"], me("direct", "triton"))
    holder.kill()
    holder.wait()
    found.summary["sampler afterwards"] = found.told(sys.executable, "-c", code + "print(repr(trouble()))")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--role"]:
        role, *given = sys.argv[2:]
        if role == "contestant":
            contestant(given[0], Path(given[1]), int(given[2]))
        elif role == "timer":
            timer(given[0], Path(given[1]), given[2], given[3])
        elif role == "direct":
            direct(given[0])
        elif role == "kernels":
            kernels(Path(given[0]), given[1])
        elif role == "around":
            around(int(given[0]), given[1:])
    else:
        chosen = sys.argv[3:] or PARTS
        main(Path(sys.argv[1]).resolve(), float(sys.argv[2]) if len(sys.argv) > 2 else 470.0, chosen)
