"""What a sandbox gives, beside keeping things in (see ``test_harness_escapes.py``)."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import platform
import re
import resource
import select
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from harness_runs import Finished, own_spec, quick_spec, run

from kernelcup_harness.device.nvidia import nodes as device_nodes
from kernelcup_harness.isolation import (
    bubblewrap,
    cgroups,
    job_users,
    landlock,
    layout,
    passed_names,
    processes,
    sandbox,
    seccomp,
)
from kernelcup_harness.protocol import Limits, Mode, Reason, SandboxPolicy, Verdict, dumps
from kernelcup_harness.run import runner

KINDS = ("bubblewrap", "landlock")
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root becomes another user")


def only(kind: str) -> dict[str, str]:
    """Return the environment of a runner that may use one kind of sandbox."""
    return {"KERNELCUP_HARNESS_SANDBOX": kind}


@cache
def described(kind: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "kernelcup_harness", "--describe"],
        env={**os.environ, **only(kind)},
        capture_output=True,
        check=True,
    )
    return dict(json.loads(done.stdout)["sandbox"])


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    if described(request.param)["kind"] != request.param:
        pytest.skip(f"no {request.param} here")
    return str(request.param)


WHO = """
import os
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
print("who=" + __import__("json").dumps([
    os.getuid(), os.getgid(), os.getgroups(), status["CapEff"].strip(), status["CapBnd"].strip(),
    status["NoNewPrivs"].strip(), status["Seccomp"].strip()]))
def custom_kernel(data):
    return data * 2
"""


BOMB = """
import os, time
def custom_kernel(data):
    while True:
        try:
            os.fork()
        except OSError:
            time.sleep(0.01)
"""


@cache
def bombed(kind: str) -> tuple[Finished, Finished]:
    """Return a job with a fork bomb, and the next one, which says who it is."""
    return run(quick_spec(BOMB, limits=Limits(test_s=2.0)), only(kind)), run(quick_spec(WHO), only(kind))


@pytest.mark.jobs
def test_a_fork_bomb_ends_with_its_job_and_the_next_one_runs(kind: str) -> None:
    bomb, after = bombed(kind)
    assert bomb.report.verdict in {Verdict.TIME_LIMIT_EXCEEDED, Verdict.MEMORY_LIMIT_EXCEEDED}
    assert after.report.verdict is Verdict.ACCEPTED, after.report.message


@pytest.mark.jobs
@as_root
def test_a_submission_runs_as_a_user_of_its_own_without_any_privilege(kind: str) -> None:
    done = bombed(kind)[1]
    ((uid, gid, groups, effective, _bounding, no_new_privileges, seccomp),) = done.printed("who")
    # They are those of its runner alone: the system counts processes by user.
    assert uid in {ids[1] for ids in layout.OWN_IDS}
    assert {gid, *groups} == {uid}
    # Where files of root's folders are shown, reading them is the one privilege that is left.
    assert int(effective, 16) & ~(1 << 2) == 0
    assert (no_new_privileges, seccomp) == ("1", "2")


@pytest.mark.jobs
def test_an_own_harness_is_emulated_and_bound_in_every_kind(kind: str) -> None:
    main = "import os, resource, torch\nassert torch.ones(1, device='cuda').is_cuda\n"
    main += f"assert resource.getrlimit(resource.RLIMIT_DATA)[0] == {1 << 30}\n"
    main += "os.write(int(os.environ['POPCORN_FD']), b'test.0.status: pass\\ncheck: pass\\n')"
    report = run(own_spec(main, limits=Limits(memory_bytes=1 << 30)), only(kind)).report
    assert report.verdict is Verdict.ACCEPTED, (report.message, report.stderr.text)


SHARES = """
import getpass, json, multiprocessing, os
from multiprocessing import shared_memory
lock = multiprocessing.Lock()
memory = shared_memory.SharedMemory(create=True, size=8)
with lock:
    memory.buf[:1] = b"x"
home = os.path.isdir(os.path.expanduser("~"))
print("shared=" + json.dumps([bytes(memory.buf[:1]).decode(), getpass.getuser(), home]))
memory.close()
memory.unlink()
def custom_kernel(data):
    return data * 2
"""


@pytest.mark.jobs
def test_locks_and_shared_memory_of_multiprocessing_work_and_the_user_has_a_name_and_a_home(
    kind: str,
) -> None:
    if kind == "landlock" and os.getuid() != 0:
        pytest.skip("only root has users of its own for jobs")
    done = run(quick_spec(SHARES), only(kind))
    assert done.printed("shared") == [["x", "kernelcup", True]], done.report.message


@pytest.mark.jobs
@as_root
def test_without_a_user_of_its_own_a_job_cannot_write_to_shared_memory_behind_landlock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if described("landlock")["kind"] != "landlock":
        pytest.skip("no landlock here")
    name = f"/dev/shm/kernelcup-test-{os.getpid()}"
    argv = [sys.executable, "-I", "-S", "-c", f"open({name!r}, 'w').close(); import os; os.unlink({name!r})"]
    assert sandbox.runs(sandbox.Kind.LANDLOCK, argv, reads_all=True)
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    assert sandbox.runs(sandbox.Kind.LANDLOCK, [sys.executable, "-I", "-S", "-c", ""])
    assert not sandbox.runs(sandbox.Kind.LANDLOCK, argv)


NAMED_CALLS = {
    "x86_64": {"kill": 62, "setpgid": 109, "rt_sigqueueinfo": 129, "tkill": 200, "tgkill": 234}
    | {"get_robust_list": 274, "rt_tgsigqueueinfo": 297},
    "aarch64": {"kill": 129, "setpgid": 154, "rt_sigqueueinfo": 138, "tkill": 130, "tgkill": 131}
    | {"get_robust_list": 100, "rt_tgsigqueueinfo": 240},
}
"""Calls that take the id of a process, and that the kernel or Landlock refuses rather than the filter."""
DENIED_CALLS = "ptrace kcmp process_vm_readv process_vm_writev pidfd_open perf_event_open".split()


def state_of(pid: int) -> list[Any]:
    """Return what a call from outside could change of a process."""
    scheduled = [os.sched_getscheduler(pid), os.getpriority(os.PRIO_PROCESS, pid), os.sched_getaffinity(pid)]
    io_priority = subprocess.run(["ionice", "-p", str(pid)], capture_output=True, check=True).stdout
    return [resource.prlimit(pid, resource.RLIMIT_NOFILE), scheduled, io_priority, os.getpgid(pid)]


def test_behind_landlock_a_job_of_the_same_user_acts_on_no_process_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not sandbox.landlock_works() or landlock.abi() < landlock.SCOPES:
        pytest.skip("no landlock here that keeps signals inside")
    table = platform.machine()
    calls = NAMED_CALLS[table] | {name: seccomp.DENIED[table][name] for name in DENIED_CALLS}
    calls |= {name: number for name, (number, *_) in seccomp.OF_THE_CALLER[table].items()}
    calls |= seccomp.OF_THREADS[table]
    # The job stays root then, which no call refuses for its user.
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    box = layout.Sandbox(user_id=layout.CONTESTANT_ID, files=tmp_path)
    (tmp_path / "probes.py").write_text(Path(__file__).with_name("outside_probes.py").read_text())
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]) as outside:
        before = state_of(outside.pid)
        argv = [sys.executable, "-I", "-S", "probes.py", str(outside.pid), json.dumps(calls)]
        inside = sandbox.confine(sandbox.Kind.LANDLOCK, box, argv, {})
        done = subprocess.run(
            inside.argv,
            pass_fds=inside.fds,
            env=inside.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        after = state_of(outside.pid)
        inside.close()
        outside.kill()
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    without_effect = {f"{name} 0" for name in seccomp.OF_THREADS[table]}
    assert {name for name, what in said["tried"].items() if what == "open"} == without_effect
    assert after == before
    assert said["wrong"] == []


@pytest.mark.parametrize(("version", "user", "ranks"), [(5, 1000, False), (6, 1000, True), (5, 0, True)])
def test_where_signals_get_out_of_landlock_and_the_user_is_the_runners_nothing_is_ranked(
    monkeypatch: pytest.MonkeyPatch, version: int, user: int, ranks: bool
) -> None:
    monkeypatch.setattr(sandbox, "kind", lambda **_: sandbox.Kind.LANDLOCK)
    monkeypatch.setattr(sandbox, "python_runs", lambda **_: True)
    monkeypatch.setattr(landlock, "abi", lambda: version)
    monkeypatch.setattr(os, "getuid", lambda: user)
    ranked = quick_spec(WHO, mode=Mode.LEADERBOARD, sandbox=SandboxPolicy.REQUIRED)
    assert (runner.cannot_run(ranked, boxed=True) is None) is ranks
    assert ("unranked" not in sandbox.describe()) is ranks
    # The demo's own files, for example: its operator asks for no sandbox, and the report says what is weaker.
    assert runner.cannot_run(dataclasses.replace(ranked, sandbox=SandboxPolicy.AUTO), boxed=True) is None


HOLDER = """
import os, sys
from kernelcup_harness.isolation import job_users, layout
job_users.sweep()
own = job_users.begin(layout.CONTESTANT_ID)
open(sys.argv[1], "w").close()
os.chown(sys.argv[1], own, own)
print(own, flush=True)
if sys.stdin.read():
    job_users.leave()
"""


@contextlib.contextmanager
def holder(name: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start a runner whose job has left a file in shared memory. Return it and the user whose the file is."""
    command = [sys.executable, "-P", "-c", HOLDER, str(name)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.kill()
            name.unlink(missing_ok=True)


@as_root
def test_files_in_shared_memory_go_with_their_job_and_no_others() -> None:
    first, second, third = (Path(f"/dev/shm/kernelcup-test-{os.getpid()}-{place}") for place in range(3))
    with holder(first) as (one, user):
        with holder(second) as (two, other):
            assert user != other
            two.communicate("leave")
            assert (first.exists(), second.exists()) == (True, False)
        one.kill()
        one.wait()
        with holder(third):
            assert (first.exists(), third.exists()) == (False, True)


DAEMON = """
import ctypes, os, signal
if os.fork() == 0:
    os.setsid()
    os.environ.clear()
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(15, b"left-behind", 0, 0, 0)  # its name
        os.kill(os.getppid(), signal.SIGKILL)
        signal.pause()
    signal.pause()
os.wait()
def custom_kernel(data):
    signal.pause()
"""


@pytest.mark.jobs
def test_a_daemon_ends_with_its_runner_although_nothing_but_its_parents_tells_whose_it_is(kind: str) -> None:
    script = "import sys\nfrom kernelcup_harness import __main__\nfrom kernelcup_harness.isolation import cgroups\n"
    script += "cgroups.delegated = lambda: None\nsys.exit(__main__.main())"
    argv = [sys.executable, "-P", "-c", script, "--events", "-"]
    environment = {**os.environ, **only(kind)}
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as runner:
        assert runner.stdout is not None
        runner.stdin.write(dumps(quick_spec(DAEMON)).encode())
        runner.stdin.close()
        for line in runner.stdout:
            if json.loads(line).get("stage") == "test":
                break
        daemons = [pid for pid in processes.descendants(runner.pid) if name_of(pid) == "left-behind"]
        handles = [os.pidfd_open(pid) for pid in daemons]
        runner.kill()
    assert len(handles) == 1
    assert select.select(handles, [], [], 30.0)[0]
    os.close(handles[0])


def name_of(pid: int) -> str:
    """Return the name of a process, nothing if it has ended."""
    with contextlib.suppress(OSError):
        return Path("/proc", str(pid), "comm").read_text().strip()
    return ""


@pytest.mark.jobs
def test_the_report_says_what_was_in_force(kind: str) -> None:
    found = bombed(kind)[1].report.environment["sandbox"]
    assert found["kind"] == kind
    assert found["seccomp"] == "denylist"
    assert ("weaker" in found) == (kind == "landlock")


@pytest.mark.jobs
def test_without_a_sandbox_a_job_that_asks_for_one_is_refused() -> None:
    done = run(quick_spec(WHO, mode=Mode.LEADERBOARD, sandbox=SandboxPolicy.REQUIRED), only("none"))
    assert (done.report.verdict, done.report.reason) == (Verdict.INTERNAL_ERROR, Reason.MACHINE)
    assert "kernelcup doctor" in done.report.message
    assert done.printed("who") == []


@pytest.mark.jobs
def test_a_machine_too_busy_for_the_trial_runs_no_job_outside_of_a_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = tmp_path / "bwrap"
    stuck.write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    stuck.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(sandbox, "TRIAL_S", 0.1)
    sandbox.kind.cache_clear()
    with pytest.raises(RuntimeError, match="trial of bubblewrap did not end"):
        sandbox.is_there()


# Too much in all three folders, but not in any two of them. The files stay until memory has been looked at: on a fast
# machine a call could be over before.
FILLS = """
import time
def custom_kernel(data):
    block = bytes(1 << 20)
    for folder in ("/tmp", "/dev/shm", "/job"):
        with open(f"{folder}/filler", "wb", buffering=0) as file:
            for _ in range(460):
                file.write(block)
    time.sleep(50)
    return data
"""


@pytest.mark.jobs
def test_memory_that_is_written_as_files_counts_as_memory() -> None:
    if described("bubblewrap")["kind"] != "bubblewrap":
        pytest.skip("no bubblewrap here")
    limits = Limits(memory_bytes=1 << 30, test_s=60.0)
    done = run(quick_spec(FILLS, limits=limits), only("bubblewrap"))
    # Full before the limit is reached, or ended at the limit: never more.
    assert done.report.verdict in {Verdict.MEMORY_LIMIT_EXCEEDED, Verdict.RUNTIME_ERROR}
    if done.report.verdict is Verdict.RUNTIME_ERROR:
        assert "No space left" in done.report.message


HOARDS = """
import os
def custom_kernel(data):
    fd = os.memfd_create("hoard")
    while True:
        os.write(fd, bytes(1 << 20))
"""


@pytest.mark.jobs
@pytest.mark.skipif(os.getuid() != 0, reason="only root may look at the descriptors of another user")
def test_memory_that_no_process_has_mapped_counts_without_a_control_group_too() -> None:
    if not sandbox.is_there():
        pytest.skip("without a sandbox it takes the memory of the machine")
    script = "import sys\nfrom kernelcup_harness import __main__\nfrom kernelcup_harness.isolation import cgroups\n"
    script += "cgroups.delegated = lambda: None\nsys.exit(__main__.main())"
    argv = [sys.executable, "-P", "-c", script, "--events", "-"]
    limits = Limits(memory_bytes=1 << 30, test_s=60.0)
    report = run(quick_spec(HOARDS, limits=limits), argv=argv).report
    assert (report.verdict, report.reason) == (Verdict.MEMORY_LIMIT_EXCEEDED, Reason.HOST_MEMORY)


# Device nodes


def make_gpus(folder: Path, count: int) -> tuple[Path, Path]:
    """Make the files of a machine with GPUs whose minor numbers are not in the order of the bus."""
    dev, driver = folder / "dev", folder / "driver"
    dev.mkdir()
    for name in ("nvidiactl", "nvidia-uvm", "kfd", "null"):
        (dev / name).touch()
    for place in range(count):
        minor = count - 1 - place
        (dev / f"nvidia{minor}").touch()
        about = driver / f"0000:0{place}:00.0"
        about.mkdir(parents=True)
        (about / "information").write_text(
            f"Model: \t NVIDIA H100\nGPU UUID: \t GPU-{place:04d}-aaaa\nDevice Minor: \t {minor}\n"
        )
    return dev, driver


def shown(folder: Path, count: int = 4, **environ: str) -> layout.DeviceNodes:
    dev, driver = make_gpus(folder, count)
    return device_nodes.nodes(environ, dev=dev, driver=driver)


def names(nodes: layout.DeviceNodes) -> set[str]:
    return {Path(path).name for path in nodes.paths} - {"nvidiactl", "nvidia-uvm", "kfd"}


@pytest.mark.parametrize(
    ("visible", "shown_nodes", "named"),
    [
        ("1", {"nvidia2"}, "GPU-0001-aaaa"),
        ("GPU-0003", {"nvidia0"}, "GPU-0003-aaaa"),
        ("2,0", {"nvidia1", "nvidia3"}, "GPU-0002-aaaa,GPU-0000-aaaa"),
    ],
)
def test_only_the_jobs_own_gpus_are_shown_and_named_by_their_ids_in_order(
    tmp_path: Path, visible: str, shown_nodes: set[str], named: str
) -> None:
    found = shown(tmp_path, CUDA_VISIBLE_DEVICES=visible, CUDA_DEVICE_ORDER="PCI_BUS_ID")
    assert names(found) == shown_nodes
    assert found.environment == {"CUDA_VISIBLE_DEVICES": named}


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"CUDA_VISIBLE_DEVICES": "1"},
        {"CUDA_VISIBLE_DEVICES": "9", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
        {"CUDA_VISIBLE_DEVICES": "GPU-"},
        {"CUDA_VISIBLE_DEVICES": "MIG-1"},
    ],
)
def test_where_it_cannot_be_told_which_gpu_is_meant_all_are_shown(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    found = shown(tmp_path, **environ)
    assert names(found) == {"nvidia0", "nvidia1", "nvidia2", "nvidia3"}
    assert found.environment == {}


def test_the_nodes_that_all_share_are_there(tmp_path: Path) -> None:
    found = {Path(path).name for path in shown(tmp_path, 1).paths}
    assert {"nvidiactl", "nvidia-uvm", "kfd"} <= found
    assert "null" not in found


def test_of_amds_gpus_the_named_ones_are_shown(tmp_path: Path) -> None:
    dev = tmp_path / "dev"
    (dev / "dri").mkdir(parents=True)
    for number in (128, 129, 130):
        (dev / f"dri/renderD{number}").touch()
    nothing = tmp_path / "nothing"
    found = device_nodes.nodes({"ROCR_VISIBLE_DEVICES": "2,1"}, dev=dev, driver=nothing)
    assert found.paths == (str(dev / "dri/renderD130"), str(dev / "dri/renderD129"))
    left = device_nodes.nodes(
        {"ROCR_VISIBLE_DEVICES": "2,1", "HIP_VISIBLE_DEVICES": "1"}, dev=dev, driver=nothing
    )
    assert left.paths == (str(dev / "dri/renderD129"),)


# Control groups


def test_groups_are_looked_for_where_they_are_mounted(tmp_path: Path) -> None:
    """A plain folder is no control group: what is made in it has no limits."""
    (tmp_path / "own").mkdir()
    mounts = f"cgroup2 {tmp_path} cgroup2 rw 0 0\nproc /proc proc rw 0 0\n"
    assert cgroups.find(mounts, "0::/own\n") is None
    assert cgroups.find("", "0::/own\n") is None
    assert list((tmp_path / "own").iterdir()) == []


@pytest.mark.jobs
def test_a_group_bounds_the_processes_in_it_and_is_removed() -> None:
    group = cgroups.make(20, 1 << 30)
    if group is None:
        pytest.skip("we may make no control groups here")
    # Each child lives as long as the first process, which alone holds the writing end.
    hold = "import os\nreading, writing = os.pipe()\ntry:\n for _ in range(50):\n"
    hold += "  if not os.fork(): os.close(writing); os.read(reading, 1); os._exit(0)\n"
    hold += "except OSError: print('full')\n"
    done = subprocess.run(
        [*group.joining(), sys.executable, "-c", hold],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert "full" in done.stdout
    group.remove()
    assert not group.exists()


@pytest.mark.jobs
def test_a_group_of_a_runner_that_was_killed_is_removed_with_what_runs_in_it() -> None:
    script = "from kernelcup_harness.isolation import cgroups\ngroup = cgroups.make(20, None)\n"
    script += "print(*(group.folders if group else ()), sep='\\n')\n"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    folders = [Path(line) for line in done.stdout.splitlines()]
    if not folders:
        pytest.skip("we may make no control groups here")
    own = cgroups.make(20, None)
    joining = cgroups.Group(tuple(folders)).joining()
    with subprocess.Popen([*joining, "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as left:
        left.stdin.write(b"x")
        left.stdin.flush()
        assert left.stdout.read(1) == b"x"  # it has joined
        cgroups.sweep()
        assert left.wait(30) == -9
    assert not any(folder.exists() for folder in folders)
    assert own.exists()
    own.remove()


# The environment


@pytest.mark.parametrize("pattern", ["HF_HUB_OFFLINE", "MY_*", "_X", "NCCL_DEBUG"])
def test_a_harmless_name_may_pass(pattern: str) -> None:
    assert passed_names.problem(pattern) is None


FORBIDDEN = ["LD_PRELOAD", "LD_*", "L*", "PYTHONPATH", "PYTHON*", "*", "P*", "KERNELCUP_HOME", "POPCORN_SEED"]


@pytest.mark.parametrize("pattern", [*FORBIDDEN, "A B", "", "a=b"])
def test_what_is_loaded_into_every_process_may_not_pass(pattern: str) -> None:
    assert passed_names.problem(pattern) is not None


def test_an_operators_names_pass_and_no_other() -> None:
    parent = {"MY_ONE": "1", "MYTWO": "2", "SECRET": "3", passed_names.VARIABLE: "MY_*"}
    found = processes.clean_environment(None, parent)
    assert found["MY_ONE"] == "1"
    assert {"MYTWO", "SECRET", passed_names.VARIABLE} & found.keys() == set()


def test_a_bad_name_is_refused_by_the_harness_too() -> None:
    with pytest.raises(ValueError, match="LD_PRELOAD"):
        processes.clean_environment(None, {passed_names.VARIABLE: "LD_PRELOAD"})


@pytest.mark.skipif(os.getuid() != 0, reason="only root has users to give")
def test_without_free_users_bubblewrap_shares_one_and_landlock_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where no lock can be written, or more runners than sets of users are at work."""
    monkeypatch.setattr(job_users, "LOCKS", str(tmp_path / "missing/users-"))
    job_users.held.cache_clear()
    box = sandbox.Sandbox(user_id=layout.CONTESTANT_ID, files=tmp_path)
    try:
        prepared = sandbox.confine(sandbox.Kind.BUBBLEWRAP, box, ["true"], {})
        prepared.close()
        assert str(layout.CONTESTANT_ID) in prepared.argv
        with pytest.raises(OSError, match="no user ids are free"):
            sandbox.confine(sandbox.Kind.LANDLOCK, box, ["true"], {})
    finally:
        job_users.held.cache_clear()


SHOWN_OF_THE_MACHINE = """
import json, os
top = [each for each in os.listdir("/proc") if not each.isdigit() and not os.path.islink("/proc/" + each)]
found = {"/proc/sys/fs/": os.listdir("/proc/sys/fs")}
for root in [*("/proc/" + each for each in top), "/sys"]:
    if os.path.isdir(root) and root != "/sys":
        found[root + "/"] = os.listdir(root)
    files = [root] if os.path.isfile(root) else []
    if root == "/sys":
        files = [os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names]
    for file in files:
        try:
            found[file] = open(file).read(1 << 20) if not file.endswith((".gz", "kallsyms")) else ""
        except OSError:
            pass
links = os.listdir("/sys/bus/pci/devices") if os.path.isdir("/sys/bus/pci") else []
found["vendors"] = {each: open(f"/sys/bus/pci/devices/{each}/vendor").read() for each in links}
print(json.dumps(found))
"""


@pytest.mark.skipif(not sandbox.has_own_names(), reason="no bubblewrap")
def test_no_file_of_the_machine_that_a_gpu_job_sees_counts(tmp_path: Path) -> None:
    """A job could leave numbers there, as the count of pages that were ever locked, for a later one of its author."""
    (tmp_path / "files").mkdir()
    gpu = layout.DeviceNodes(paths=(), environment={})
    box = layout.Sandbox(user_id=layout.CONTESTANT_ID, files=tmp_path / "files", devices=gpu)
    argv = [sys.executable, "-I", "-S", "-c", SHOWN_OF_THE_MACHINE]
    inside = sandbox.confine(sandbox.Kind.BUBBLEWRAP, box, argv, {})
    done = subprocess.run(inside.argv, pass_fds=inside.fds, capture_output=True, text=True, check=True)
    inside.close()
    found = json.loads(done.stdout)
    vendors = found.pop("vendors")
    system = {name for name in found if name.startswith("/sys/")}
    counting = {
        name: what
        for name, what in found.items()
        if name not in system and name.split("/")[2] not in bubblewrap.NOT_COUNTING
    }
    assert {"/proc/uptime", "/proc/cgroups", "/proc/stat", "/proc/vmstat", "/proc/irq/"} <= counting.keys()
    for name, what in {**counting, "/proc/sys/fs/": found["/proc/sys/fs/"]}.items():
        assert what == [] if name.endswith("/") else not re.search(r"(?<![^\s./])[1-9]", what), name
    named = {pattern.rpartition("/")[2] for pattern in bubblewrap.SYSTEM_FACTS}
    assert {name for name in system if not any(fnmatch(Path(name).name, each) for each in named)} == set()
    # What the driver needs is there.
    assert vendors == {
        each.name: (each / "vendor").read_text() for each in Path("/sys/bus/pci/devices").glob("*")
    }
    online = "/sys/devices/system/cpu/online"
    assert found[online] == Path(online).read_text()


READS_COUNTERS = """
import os
assert open("/proc/uptime").read() == "0.0 0.0\\n"
try:
    os.pidfd_open(os.getpid())
except PermissionError:
    pass
else:
    raise AssertionError("the inode number of a process counts processes")
def custom_kernel(data):
    return data * 2
"""


@pytest.mark.jobs
@pytest.mark.skipif(not sandbox.has_own_names(), reason="no bubblewrap")
def test_a_submission_reads_no_counters_of_the_machine() -> None:
    report = run(quick_spec(READS_COUNTERS)).report
    assert (report.verdict, report.message) == (Verdict.ACCEPTED, "")
