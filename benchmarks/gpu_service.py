"""The whole service on a GPU machine: a server, agents and a Ray node judge and profile real submissions.

    python3.12 benchmarks/gpu_service.py pack .whl           # here: packages that are not installed over there
    python3 benchmarks/gpu_service.py run OUT --packages .whl --bubblewrap .bwrap [--parts ray] [--seconds 560]

Everything goes through ``kernelcup serve`` on loopback and the command line. A part or step that fails, or takes too
long, is noted with its output, and the next one begins. ``OUT`` gets ``summary.json``, ``terminal.txt``, the pages of
profiles, and ``more.tar.gz`` with logs and profiles; ends with 1 if a step had another outcome than expected. It may
write to Python's own folders, so the machine should be one that is thrown away. With ``--device emulated`` it can be
practised without a GPU, where the CUDA submission fails and profiles have no counters.
"""

from __future__ import annotations

import argparse
import contextlib
import http.cookiejar
import itertools
import json
import os
import re
import shutil
import signal
import site
import socket
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import clean_room_jobs

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "src/kernelcup/tasks/examples"
BOARDS = ("vectoradd", "matmul")
PARTS = ("picture", "judge", "profile", "agent", "machines", "ray")
RANKED_RUNS = 6
MACHINES = ("lab-a", "lab-b")

# Multicast would reach GPUs of the host that others use.
NO_MULTICAST = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
}
CUDA = """\
#include <cuda_fp16.h>

__global__ void add(const __half *a, const __half *b, __half *c, int64_t count) {
    const int64_t i = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) * 2;
    if (i + 1 < count) {
        const __half2 x = *reinterpret_cast<const __half2 *>(a + i), y = *reinterpret_cast<const __half2 *>(b + i);
        *reinterpret_cast<__half2 *>(c + i) = __hadd2(x, y);
    } else if (i < count) {
        c[i] = __hadd(a[i], b[i]);
    }
}

int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    const int64_t count = kc_numel(&outputs->tensors[0]);
    add<<<(count / 2 + 256) / 256, 256, 0, (cudaStream_t)context->stream>>>(
        (const __half *)inputs->tensors[0].data, (const __half *)inputs->tensors[1].data,
        (__half *)outputs->tensors[0].data, count);
    return 0;
}
"""
ATEN = "def custom_kernel(data):\n    a, b = data\n    return (a.float() + b.float()).half()\n"
SUBMISSIONS = {
    "triton": ("vectoradd", "py", (EXAMPLES / "vectoradd/template_triton.py").read_text()),
    "cuda": ("vectoradd", "cu", CUDA),
    "cublas": ("matmul", "py", (EXAMPLES / "matmul/template.py").read_text()),
    "aten": ("vectoradd", "py", ATEN),
}
"""Leaderboard, ending and text by name."""
WRITTEN_IN = {
    "triton": "triton",
    "autotune": "triton-autotuned",
    "in_turns": "triton-cooperative",
    "cupy": "cupy-raw",
    "cupy_in_torch": "cupy-elementwise",
    "inline": "cuda-load-inline",
    "own_graph": "torch-in-a-graph",
}
"""Kinds of ``clean_room_cases`` that compute ``a * b + c`` of 4 Mi floats, and the names of their users."""
PICTURE = """\
lang: py
description: Compute `a * b + c` of three vectors of 4 Mi floats.
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
  - {name: clean_room_cases.py, source: clean_room_cases.py}
  - {name: replay_cases.py, source: replay_cases.py}
  - {name: replay_triton.py, source: replay_triton.py}
tests:
  - {seed: 11}
benchmarks:
  - {seed: 12}
"""
MULTIPLY_ADD = """\
import torch


def generate_input(seed):
    chance = torch.Generator("cuda").manual_seed(seed)
    return tuple(torch.randn(4 << 20, generator=chance, device="cuda") for _ in range(3))


def ref_kernel(data):
    a, b, c = data
    return a * b + c


def check_implementation(data, output):
    right = ref_kernel(data)
    error = ((output - right).abs() / (1 + right.abs())).max().item()
    return "" if error <= 1e-5 else f"off by {error:.3g}, 1e-5 is allowed"
"""
"""The task of ``scripts/measured-picture``. Its reference imports none of the files that submissions see."""

# What Ray ships and a node of ours never loads: Java, the dashboard, the libraries above its core.
UNUSED = ("jars", "cpp", "rllib", "tune", "llm", "dashboard/client")
# What the machines have: Ray needs no version of its own.
THERE = ("grpc", "grpcio-*", "virtualenv*", "py_spy*", "distlib*", "platformdirs*")


# Here


def pack(folder: Path) -> None:
    """Write ``kernelcup.tar.xz`` and ``ray.tar.xz``: our dependencies, and Ray's, for Python 3.12 on x86-64."""
    folder.mkdir(parents=True, exist_ok=True)
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    with tempfile.TemporaryDirectory() as name:
        ours, rays = Path(name, "kernelcup"), Path(name, "ray")
        install(ours, "server.txt", project["dependencies"])
        install(rays, "fleet.txt", project["optional-dependencies"]["fleet"])
        for each in [
            *(rays / "ray" / unused for unused in UNUSED),
            *(rays / each.name for each in ours.iterdir()),
        ]:
            shutil.rmtree(each, ignore_errors=True)
        for each in [found for pattern in THERE for found in rays.glob(pattern)]:
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        for each in (ours, rays):
            target = folder / f"{each.name}.tar.xz"
            with tarfile.open(target, "w:xz", preset=9) as archive:
                archive.add(each, ".")
            print(f"{target}: {target.stat().st_size / 1e6:.1f} MB")


def install(folder: Path, locked: str, wanted: list[str]) -> None:
    """Install packages of the versions that ``requirements/`` names."""
    lines = (ROOT / "requirements" / locked).read_text().splitlines()
    versions = folder.with_suffix(".txt")
    versions.write_text("\n".join(each.rstrip(" \\") for each in lines if not each.startswith((" ", "#"))))
    options = ["--quiet", "--no-compile", "--only-binary=:all:", "--target", str(folder), "-c", str(versions)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, *wanted], check=True)


# There


class StepFailed(Exception):
    """A command that ended otherwise than expected, or did not end."""


class Session:
    """One run of this script: its folders, its time, what came of each step.

    Args:
        given: The command line.
    """

    def __init__(self, given: argparse.Namespace) -> None:
        self.out = given.out.resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self.until = self.ends = time.monotonic() + given.seconds
        self.work = Path(tempfile.mkdtemp(prefix="kc-"))  # short: sockets lie below it
        self.logs = self.work / "logs"
        self.logs.mkdir()
        self.backend, self.device = given.device, "emulated"
        self.steps: list[dict[str, Any]] = []
        self.environ = {
            **os.environ,
            **NO_MULTICAST,
            "HOME": str(self.work),
            "USER": "host",
            "PYTHONUNBUFFERED": "1",
        }
        # One folder of locks for all: a GPU has one job at a time.
        self.environ["KERNELCUP_RUNTIME"] = str(self.work / "locks")
        self.environ["COLUMNS"] = "120"
        if given.device == "cuda":
            self.device = self.output("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").split()[1]
        for name, text in {f"{key}.{ending}": text for key, (_, ending, text) in SUBMISSIONS.items()}.items():
            (self.work / name).write_text(text)

    def set_up(self, packages: Path | None, bubblewrap: Path | None) -> None:
        """Make ``kernelcup`` start here, from this folder's sources."""
        if bubblewrap is not None:
            for variable in ("PATH", "LD_LIBRARY_PATH"):
                parts = [str(bubblewrap.resolve()), self.environ.get(variable, "")]
                self.environ[variable] = ":".join(filter(None, parts))
        if packages is None:
            return
        target = self.work / "packages"
        for each in sorted(packages.glob("*.tar.xz")):
            with tarfile.open(each) as archive:
                archive.extractall(target, filter="tar")
        self.environ["PYTHONPATH"] = f"{ROOT / 'src'}:{target}"
        with (ROOT / "pyproject.toml").open("rb") as file:
            groups = tomllib.load(file)["project"]["entry-points"]
        about = target / "kernelcup-0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: kernelcup\nVersion: 0\n")
        lines = [
            f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in names.items())
            for group, names in groups.items()
        ]
        (about / "entry_points.txt").write_text("\n".join(lines))
        # The harness starts without PYTHONPATH, as in an installation.
        Path(site.getsitepackages()[0], "kernelcup-sources.pth").write_text(f"{ROOT / 'src'}\n")
        ray = Path(sys.executable).with_name("ray")
        if not ray.exists():
            ray.write_text(f"#!{sys.executable}\nfrom ray.scripts.scripts import main\nmain()\n")
            ray.chmod(0o755)

    def output(self, *command: str, fine: tuple[int, ...] = (0,), **options: Any) -> str:
        """Return what a command prints. Raise ``StepFailed``."""
        left = max(1.0, self.until - time.monotonic())
        options = {"env": self.environ, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        started = subprocess.Popen(command, text=True, start_new_session=True, **options)
        try:
            out, err = started.communicate(timeout=left)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
            out, err = started.communicate()
            raise StepFailed(
                f"{command}: not done after {left:.0f} s\n{out[-1500:]}\n{err[-1500:]}"
            ) from None
        with (self.logs / "commands.txt").open("a") as log:
            log.write(f"$ {' '.join(command)}\n{out[-20_000:]}\n{err[-20_000:]}\n")
        if started.returncode not in fine:
            raise StepFailed(f"{command}: exit code {started.returncode}\n{out[-1500:]}\n{err[-1500:]}")
        return out

    def step(self, name: str, limit_s: float, do: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Do something for at most so long, and note what came of it; a failure is noted, too."""
        began = time.monotonic()
        note: dict[str, Any] = {"step": name}
        # Without a GPU there is no hurry: an interpreter runs the kernels.
        self.until = min(self.ends, began + limit_s * (1 if self.backend == "cuda" else 4))
        try:
            if began > self.ends - 5:
                raise StepFailed("no time was left")
            note |= do()
        except Exception as error:  # the next step may work
            note |= {"fine": False, "error": f"{type(error).__name__}: {error}"[:3500]}
        note["step_s"] = round(time.monotonic() - began, 2)
        self.until = self.ends
        self.steps.append(note)
        shown = {key: value for key, value in note.items() if key not in ("step", "phases")}
        print(f"{'ok  ' if note.get('fine') else 'FAIL'} {name}: {json.dumps(shown)[:700]}", flush=True)
        self.save()
        return note

    def save(self) -> None:
        """Write what is known so far."""
        about = {"device": self.device, "python": sys.version.split()[0], "cores": os.cpu_count()}
        (self.out / "summary.json").write_text(json.dumps({**about, "steps": self.steps}, indent=1))

    def keep(self) -> None:
        """Pack logs and profiles, as many as fit into what comes back from the machine."""
        with tarfile.open(self.out / "more.tar.gz", "w:gz") as archive:
            for pattern in ("logs/*", "profile-*/*", "r/session_latest/logs/*"):
                for each in sorted(self.work.glob(pattern)):
                    if each.is_file() and each.stat().st_size < 4 << 20:
                        archive.add(each, f"{each.parent.name}/{each.name}")

    @contextlib.contextmanager
    def process(self, name: str, *arguments: str, environ: dict[str, str]) -> Iterator[Path]:
        """Provide a process of ``kernelcup``; yield its log."""
        log = self.logs / f"{name}.txt"
        with (
            log.open("w") as file,
            subprocess.Popen(
                [sys.executable, "-m", "kernelcup", *arguments],
                env=environ,
                stdout=file,
                stderr=file,
                start_new_session=True,
            ) as started,
        ):
            try:
                yield log
            finally:
                started.terminate()
                try:
                    started.wait(15)
                except subprocess.TimeoutExpired:
                    os.killpg(started.pid, signal.SIGKILL)

    def home(self, name: str, launcher: str, more: str = "") -> dict[str, str]:
        """Return the environment of a process with a configuration of its own."""
        folder = self.work / name
        folder.mkdir()
        (folder / "kernelcup.toml").write_text(
            f'{more}\n[[devices]]\nname = "{self.device}"\nbackend = "{self.backend}"\nlauncher = "{launcher}"\n'
        )
        return {**self.environ, "KERNELCUP_HOME": str(folder)}

    def wait(self, what: str, is_there: Callable[[], bool]) -> None:
        """Wait for something. Raise ``StepFailed`` at the end of the step."""
        while not is_there():
            if time.monotonic() > self.until:
                raise StepFailed(f"waited in vain for {what}")
            time.sleep(0.2)


class Service:
    """A server on loopback with two leaderboards and an admin.

    Args:
        session: The run.
        name: Of its folder.
        launcher: Of its device.
        more: More of its configuration.
    """

    def __init__(self, session: Session, name: str, launcher: str, more: str = "") -> None:
        self.session = session
        self.name = name
        self.server = session.home(name, launcher, more)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    @contextlib.contextmanager
    def running(self) -> Iterator[Service]:
        """Provide it."""
        for board in BOARDS:
            self.operate("board", "create", board, "--device", self.session.device, "--no-run")
        self.operate("admin", "user", "add", "gpu", "--role", "admin")
        token = self.operate("admin", "token", "create", "gpu", "--name", "script").strip()
        self.client = {**self.session.environ, "KERNELCUP_SERVER": self.url, "KERNELCUP_TOKEN": token}
        self.client["KERNELCUP_HOME"] = str(self.session.work / "client")
        with self.session.process(self.name, "serve", f"--port={self.port}", environ=self.server) as log:
            self.session.wait("the server", lambda: "serving" in log.read_text())
            yield self

    def operate(self, *arguments: str) -> str:
        """Run a command as the operator, on the database."""
        command = (sys.executable, "-m", "kernelcup", *arguments, "--local")
        return self.session.output(*command, env=self.server)

    def ask(self, *arguments: str) -> str:
        """Run a command as a user of the server; verdicts that are not accepted are an answer, too."""
        command = (sys.executable, "-m", "kernelcup", *arguments)
        return self.session.output(*command, env=self.client, fine=(0, *range(10, 18)))

    def submit(self, name: str, mode: str, *, text: str | None = None) -> dict[str, Any]:
        """Submit and wait; return what came of it."""
        board, ending, own = SUBMISSIONS[name]
        file = self.session.work / f"{name}.{ending}"
        file.write_text(own if text is None else text)
        began = time.monotonic()
        answer = json.loads(
            self.ask("submit", str(file), "-b", board, "-d", self.session.device, "-m", mode, "--json")
        )
        return {"seconds": round(time.monotonic() - began, 2), **outcome(answer)}

    def judge_again(self, submission: int) -> dict[str, Any]:
        """Judge a submission again and wait; return what came of it."""
        show = ("submissions", "show", str(submission), "--json")
        before = json.loads(self.ask(*show))["jobs"][0]["run"]
        began = time.monotonic()
        self.ask("admin", "rejudge", "--submission", str(submission), "--yes")
        found: dict[str, Any] = {}

        def is_there() -> bool:
            found.update(json.loads(self.ask(*show)))
            return found["jobs"][0]["run"] not in (None, before) and found["jobs"][0]["state"] == "done"

        self.session.wait("the verdict", is_there)
        return {"seconds": round(time.monotonic() - began, 2), **outcome(found)}

    def page(self, path: str) -> str:
        """Return a page as its browser gets it, signed in by a one-time link."""
        link = self.operate("admin", "user", "link", "gpu").strip().partition(",")[2]
        link = self.url + urllib.parse.urlsplit(link).path
        browser = urllib.request.build_opener(
            urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()), urllib.request.ProxyHandler({})
        )
        asked = browser.open(link, timeout=30).read().decode()
        token = re.search(r'name="csrf_token"[^>]*value="([^"]+)"', asked)
        form = urllib.parse.urlencode({"csrf_token": token[1] if token else ""}).encode()
        browser.open(urllib.request.Request(link, form, {"Origin": self.url}), timeout=30)
        return str(browser.open(self.url + path, timeout=30).read().decode())


def outcome(answer: dict[str, Any]) -> dict[str, Any]:
    """Return what matters of a submission's only job."""
    job = answer["jobs"][0]
    report = job["report"] or {}
    room = report.get("environment", {}).get("clean_room", {})
    found = {"fine": job["verdict"] == "accepted", "submission": answer["id"], "verdict": job["verdict"]}
    if message := (report.get("message") or job["reason"]):
        found["message"] = message[:600]
    if job["score_s"] is not None:
        found |= {
            key.replace("_s", "_us"): round(job[key] * 1e6, 4) for key in ("score_s", "low_s", "high_s")
        }
        found |= {"trust": job["trust"], "replayed": room.get("replayed")}
        found["kernels"] = [each["name"][:60] for each in report.get("ran", [])]
    return found | {"phases": report.get("phases", {})}


def judge(session: Session, service: Service) -> None:
    """Judge each submission in test mode and ranked. The first job, of another kind, meets a machine that is cold."""
    session.step("judge/first", 90, lambda: service.submit("aten", "test"))
    for name in SUBMISSIONS:
        for mode in ("test", "ranked"):
            session.step(f"judge/{name}/{mode}", 60, lambda name=name, mode=mode: service.submit(name, mode))


def picture(session: Session, service: Service) -> None:
    """Rank a kernel of each user on a leaderboard of its own, and keep the database."""
    folder = session.work / "fma"
    folder.mkdir()
    (folder / "task.yml").write_text(PICTURE)
    (folder / "reference.py").write_text(MULTIPLY_ADD)
    for name in clean_room_jobs.SHARED:
        (folder / name).write_text((ROOT / "benchmarks" / name).read_text())
    service.operate("board", "create", str(folder), "--device", session.device, "--no-run")
    for kind, user in WRITTEN_IN.items():
        session.step(
            f"picture/{user}", 60, lambda kind=kind, user=user: ranked_of(session, service, kind, user)
        )
    with contextlib.closing(sqlite3.connect(session.work / "alone/kernelcup.db")) as database:
        database.execute("VACUUM INTO ?", (str(session.out / "fma.db"),))


def ranked_of(session: Session, service: Service, kind: str, user: str) -> dict[str, Any]:
    """Submit a kind as a user of its own, and wait; return what came of it."""
    service.operate("admin", "user", "add", user)
    token = service.operate("admin", "token", "create", user, "--name", "script").strip()
    file = session.work / f"{kind}.py"
    file.write_text(clean_room_jobs.SUBMISSION.format(name=kind))
    began, own = time.monotonic(), {**service.client, "KERNELCUP_TOKEN": token}
    asked = ("submit", str(file), "-b", "fma", "-d", session.device, "-m", "ranked", "--json")
    answer = json.loads(
        session.output(sys.executable, "-m", "kernelcup", *asked, env=own, fine=(0, *range(10, 18)))
    )
    return {"seconds": round(time.monotonic() - began, 2), **outcome(answer)}


def profile(session: Session, service: Service) -> None:
    """Profile each submission through the queue, and look at its page."""
    for name in ("cuda", "triton", "cublas", "aten"):
        session.step(f"profile/{name}", 75, lambda name=name: profiled(session, service, name))


def profiled(session: Session, service: Service, name: str) -> dict[str, Any]:
    """Return seconds and bytes of a profile, in the terminal and on the page."""
    board, ending, _ = SUBMISSIONS[name]
    folder = session.work / f"profile-{name}"
    folder.mkdir()
    file, began = session.work / f"{name}.{ending}", time.monotonic()
    text = service.ask("profile", str(file), "-b", board, "-d", session.device, "--files", str(folder))
    note: dict[str, Any] = {"seconds": round(time.monotonic() - began, 2)}
    with (session.out / "terminal.txt").open("a") as terminal:
        terminal.write(f"$ kernelcup profile {file.name} --board {board}\n{text}\n")
    submission = re.search(r"submission (\d+)", text)
    note |= outcome(
        json.loads(service.ask("submissions", "show", submission[1] if submission else "0", "--json"))
    )
    page = service.page(f"/s/{note['submission']}")
    (session.out / f"page-{name}.html").write_text(page)
    note |= {"page_bytes": len(page.encode()), "page_has_roofline": "oofline" in page}
    note["file_bytes"] = {
        each.name.partition("-")[2]: each.stat().st_size for each in sorted(folder.iterdir())
    }
    reports = list(folder.glob("*.ncu-rep"))
    for each in reports:
        details = session.output("ncu", "--import", str(each), "--page", "details")
        note["imported_lines"], note["imported_head"] = details.count("\n"), details[:300]
    note["fine"] = note["fine"] and (bool(reports) or session.backend != "cuda")
    return note


def with_agents(session: Session, parts: list[str]) -> None:
    """Judge by an agent, then by two in turns."""
    service = Service(session, "hub", "agent")
    with contextlib.ExitStack() as stack:

        def start(name: str) -> dict[str, Any]:
            if name == MACHINES[0]:
                stack.enter_context(service.running())
            token = service.operate("admin", "machines", "add", name, "--own").strip()
            environ = {**session.home(name, "local", "[local]\nwarm = 1\n"), "KERNELCUP_AGENT_TOKEN": token}
            stack.enter_context(session.process(name, "runner", "agent", service.url, environ=environ))
            session.wait("the agent", lambda: state_of(service, name) == "up")
            return {"fine": True}

        if not session.step("agent/start", 60, lambda: start(MACHINES[0]))["fine"]:
            return
        for mode in ("test", "ranked"):
            session.step(f"agent/triton/{mode}", 60, lambda mode=mode: service.submit("triton", mode))
        if "machines" in parts:
            if not session.step("machines/start", 60, lambda: start(MACHINES[1]))["fine"]:
                return
            for number in range(RANKED_RUNS):
                session.step(f"machines/{number}", 90, lambda number=number: in_turns(service, number))
            session.step("machines/compare", 30, lambda: compared(session, service))


def state_of(service: Service, machine: str) -> str:
    """Return the state of a machine."""
    found = json.loads(service.operate("admin", "machines", "list", "--json"))["machines"]
    return next((str(each["state"]) for each in found if each["name"] == machine), "")


def in_turns(service: Service, number: int) -> dict[str, Any]:
    """Have both machines rank one text, which is no other submission's; each is the first one every other time."""
    first, second = MACHINES if number % 2 == 0 else MACHINES[::-1]
    text = f"{SUBMISSIONS['triton'][2]}\n# {number}\n"
    service.ask("admin", "machines", "rank", "vectoradd", first)
    one = service.submit("triton", "ranked", text=text)
    service.ask("admin", "machines", "rank", "vectoradd", second)
    two = service.judge_again(one["submission"])
    kept = ("seconds", "verdict", "message", "score_us", "low_us", "high_us", "trust")
    found = {name: {key: run.get(key) for key in kept} for name, run in ((first, one), (second, two))}
    return {"fine": one["fine"] and two["fine"], "submission": one["submission"], **found}


def compared(session: Session, service: Service) -> dict[str, Any]:
    """Return whether both machines agree."""
    text = service.operate("admin", "machines", "compare", *MACHINES)
    with (session.out / "terminal.txt").open("a") as terminal:
        terminal.write(f"$ kernelcup admin machines compare {' '.join(MACHINES)}\n{text}\n")
    found = json.loads(service.operate("admin", "machines", "compare", *MACHINES, "--json"))
    return {"fine": found["agrees"] is True, **found}


def by_ray(session: Session) -> None:
    """Judge by a Ray node, which is its cluster's head."""
    port = free_port()
    environ = session.home("node", "local", "[local]\nwarm = 1\n")
    more = f'[launchers.ray]\naddress = "127.0.0.1:{port}"\n'
    service = Service(session, "rays", "ray", more)
    with contextlib.ExitStack() as stack:

        def start() -> dict[str, Any]:
            options = ("runner", "up", f"--port={port}", "--name=node", f"--temp-dir={session.work / 'r'}")
            log = stack.enter_context(session.process("ray", *options, environ=environ))
            session.wait("Ray", lambda: "Ray runtime started" in log.read_text())
            stack.enter_context(service.running())
            session.wait("the node", lambda: state_of(service, "node") == "up")
            service.operate("admin", "machines", "own", "node")
            return {"fine": True}

        if not session.step("ray/start", 120, start)["fine"]:
            return
        for mode in ("test", "ranked", "test", "ranked"):
            session.step(f"ray/triton/{mode}", 90, lambda mode=mode: service.submit("triton", mode))


def run(given: argparse.Namespace) -> int:
    """Run all parts, and return 1 if a step is not fine."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    session = Session(given)
    session.step("set-up", 90, lambda: session.set_up(given.packages, given.bubblewrap) or {"fine": True})
    doctor = (sys.executable, "-m", "kernelcup", "doctor", "--runner")
    session.step("doctor", 60, lambda: {"fine": True, "text": session.output(*doctor, fine=(0, 4))})
    try:
        if {"picture", "judge", "profile"} & set(given.parts):
            with contextlib.ExitStack() as stack:
                service = Service(session, "alone", "local")
                begun = session.step(
                    "serve", 60, lambda: {"fine": bool(stack.enter_context(service.running()))}
                )
                for name, part in {"picture": picture, "judge": judge, "profile": profile}.items():
                    if name in given.parts and begun["fine"]:
                        part(session, service)
        if {"agent", "machines"} & set(given.parts):
            with_agents(session, given.parts)
        if "ray" in given.parts:
            by_ray(session)
    finally:
        session.keep()
        shutil.rmtree(session.work, ignore_errors=True)
    wrong = [each["step"] for each in session.steps if not each.get("fine")]
    print(f"{len(session.steps)} steps, not as expected: {', '.join(wrong) or 'none'}")
    return 1 if wrong else 0


PORTS = itertools.count(20_000 + os.getpid() % 10_000)


def free_port() -> int:
    """Return another port that is free, below those that the kernel gives to clients."""
    for port in PORTS:
        with contextlib.suppress(OSError), socket.socket() as tried:
            tried.bind(("127.0.0.1", port))
            return port
    raise OSError("no port is free")


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    packing = commands.add_parser("pack")
    packing.add_argument("folder", type=Path)
    packing.set_defaults(do=lambda given: pack(given.folder) or 0)
    running = commands.add_parser("run")
    running.add_argument("out", type=Path)
    running.add_argument("--device", choices=("cuda", "emulated"), default="cuda")
    running.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    running.add_argument(
        "--packages", type=Path, help="folder of archives by `pack`; default: what is installed"
    )
    running.add_argument("--bubblewrap", type=Path, help="folder with bwrap and its libraries")
    running.add_argument(
        "--seconds", type=float, default=560.0, help="begin and continue nothing after so long"
    )
    running.set_defaults(do=run)
    given = parser.parse_args()
    return int(given.do(given))


if __name__ == "__main__":
    sys.exit(main())
