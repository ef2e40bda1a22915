"""What foreign code must not reach from inside: a table of paths, system calls and addresses.

Tried from a submission, from its build, from a task's reference in the judge, and from a task's own
harness; in both kinds of sandbox.

What Landlock cannot hide is that a file exists and whose it is: only contents and lists are probed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import escape_probes
import pytest
from harness_runs import REFERENCE, SOURCE, Finished, own_spec, quick_spec, run

from kernelcup_harness.isolation import seccomp
from kernelcup_harness.protocol import SandboxPolicy, Verdict

SECRET = "KERNELCUP_ESCAPE_SECRET"
PROBES = Path(escape_probes.__file__).read_text().replace("from __future__ import annotations\n", "")
REPOSITORY = Path(__file__).resolve().parents[2]

# What no filter of ours may ever let pass, whatever else it denies.
CALLS = (
    "ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp process_madvise process_mrelease bpf perf_event_open "
    "userfaultfd io_uring_setup io_uring_enter io_uring_register keyctl add_key request_key mount umount2 "
    "pivot_root chroot move_mount open_tree fsopen fsconfig fsmount fspick mount_setattr unshare setns "
    "open_by_handle_at name_to_handle_at kexec_load kexec_file_load init_module finit_module delete_module "
    "reboot syslog swapon swapoff acct settimeofday clock_settime adjtimex clock_adjtime sethostname "
    "setdomainname quotactl inotify_init1 inotify_add_watch fanotify_init fanotify_mark mincore cachestat"
).split()

CLONE_FLAGS = {"user": 0x10000000, "mount": 0x20000, "pid": 0x20000000, "net": 0x40000000, "ipc": 0x8000000}

READABLE = (
    "/etc/shadow",
    "/etc/hostname",
    "/etc/machine-id",
    "/etc/ssh/ssh_host_ed25519_key",
    "/var/lib/dpkg/status",
    "/proc/kcore",
    "/proc/1/root/etc/shadow",
    "/proc/self/root/etc/shadow",
    "/dev/mem",
    "/dev/kmsg",
    "/dev/vda",
    "/dev/sda",
    "/dev/nvme0n1",
    "/dev/kvm",
    "/dev/fuse",
    "/dev/vsock",
    str(REPOSITORY / "pyproject.toml"),
    str(REPOSITORY / ".git/HEAD"),
    str(SOURCE / "kernelcup/config/settings.py"),
    __file__,
)
WRITABLE = (
    "/usr/kernelcup-escape",
    "/etc/ld.so.cache",
    "/bin/sh",
    "/proc/sys/kernel/core_pattern",
    "/proc/sysrq-trigger",
    "/proc/1/oom_score_adj",
    "/sys/power/state",
    "/sys/kernel/uevent_helper",
    "/sys/fs/cgroup/cgroup.procs",
    "/sys/fs/cgroup/pids/cgroup.procs",
    "/sys/fs/cgroup/memory/release_agent",
    sys.executable,
    str(SOURCE / "kernelcup_harness/judge/main.py"),
)
SERVICES = ("/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/dbus/system_bus_socket")


@dataclasses.dataclass
class Host:
    """What there is to be found outside, and who called there."""

    targets: dict[str, Any]
    listeners: list[socket.socket]

    def callers(self) -> int:
        """Count the connections and messages that came."""
        count = 0
        for listener in self.listeners:
            with contextlib.suppress(BlockingIOError):
                if listener.type == socket.SOCK_STREAM:
                    listener.accept()[0].close()
                else:
                    listener.recv(1)
                count += 1
        return count


def listening(family: int, kind: int, address: Any) -> socket.socket | None:
    """Open a socket where somebody could call, None for a family that is not here."""
    try:
        found = socket.socket(family, kind)
        found.bind(address)
    except OSError:
        return None
    if kind == socket.SOCK_STREAM:
        found.listen()
    found.setblocking(False)
    return found


@pytest.fixture
def host() -> Iterator[Host]:
    """A host with open doors: files for everybody to read, sockets for everybody to call."""
    folder = Path(tempfile.mkdtemp(prefix="escape-"))
    folder.chmod(0o755)
    (folder / "readable.txt").write_text("readable by everybody")
    (folder / "writable.txt").write_text("writable by everybody")
    (folder / "writable.txt").chmod(0o666)
    name = f"kernelcup-escape-{os.getpid()}"
    unix, stream, datagram = socket.AF_UNIX, socket.SOCK_STREAM, socket.SOCK_DGRAM
    opened = {
        "IPv4": listening(socket.AF_INET, stream, ("127.0.0.1", 0)),
        "IPv4 datagrams": listening(socket.AF_INET, datagram, ("127.0.0.1", 0)),
        "IPv6": listening(socket.AF_INET6, stream, ("::1", 0)),
        "abstract": listening(unix, stream, f"\0{name}"),
        "abstract datagrams": listening(unix, datagram, f"\0{name}-datagrams"),
        "path": listening(unix, stream, str(folder / "stream")),
        "path datagrams": listening(unix, datagram, str(folder / "datagrams")),
    }
    for path in ("stream", "datagrams"):
        (folder / path).chmod(0o777)
    found = {name: each for name, each in opened.items() if each is not None}
    yield Host(targets(folder, found), list(found.values()))
    for each in found.values():
        each.close()
    shutil.rmtree(folder)


def targets(folder: Path, listeners: dict[str, socket.socket]) -> dict[str, Any]:
    """Return the whole table."""
    machine = platform.machine()
    addresses: dict[str, Any] = {
        name: (int(each.family), int(each.type), each.getsockname()) for name, each in listeners.items()
    }
    for name, address in addresses.items():
        if isinstance(address[2], bytes):
            addresses[name] = (*address[:2], address[2].decode())
    addresses |= {path: (int(socket.AF_UNIX), int(socket.SOCK_STREAM), path) for path in SERVICES}
    addresses |= {
        "AF_VSOCK": (40, 1, [2, 22]),
        "AF_NETLINK": (16, 3, None),
        "AF_PACKET": (17, 3, None),
        "AF_ALG": (38, 5, None),
        "AF_BLUETOOTH": (31, 1, None),
        "raw IPv4": (2, 3, None),
        "the internet": (2, 1, ["1.1.1.1", 53]),
    }
    local = {name: each for name, each in addresses.items() if each[0] == socket.AF_UNIX}
    return {
        "readable": [*READABLE, str(folder / "readable.txt"), f"/proc/1/root{folder}/readable.txt"],
        "folders": ["/root", "/home", "/var", "/etc", "/tmp", "/run", "/", str(REPOSITORY), str(folder)],
        "names": [folder.name, "readable.txt", "shadow", ".bashrc", "pyproject.toml"],
        "writable": [*WRITABLE, str(folder / "writable.txt")],
        "environments": ["/proc/1/environ", f"/proc/{os.getpid()}/environ"],
        "variables": [SECRET],
        "processes": [os.getpid()],
        "calls": {name: seccomp.DENIED[machine][name] for name in CALLS if name in seccomp.DENIED[machine]},
        "clone": seccomp.FILTERED[machine][0],
        "clone_flags": CLONE_FLAGS,
        "addresses": addresses,
        "pairs": {name: (kind, address) for name, (_, kind, address) in local.items()},
    }


def calling(host: Host, **changes: Any) -> str:
    """Return Python that tries everything and has the answer in ``answer``."""
    text = json.dumps(host.targets | changes)
    return f"{PROBES}\nimport json\nanswer = json.dumps(attempt(json.loads({text!r})))\n"


def environment(kind: str) -> dict[str, str]:
    """Return the environment of a runner with a secret, and one kind of sandbox."""
    return {"KERNELCUP_HARNESS_SANDBOX": kind, SECRET: "its value"}


@pytest.fixture(params=["bubblewrap", "landlock"])
def kind(request: pytest.FixtureRequest) -> str:
    """A kind of sandbox that works here."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "kernelcup_harness", "--describe"],
        env={**os.environ, **environment(request.param)},
        capture_output=True,
        check=True,
    )
    if json.loads(done.stdout)["sandbox"]["kind"] != request.param:
        pytest.skip(f"no {request.param} here")
    return str(request.param)


def answers(text: str, role: str) -> dict[str, str]:
    """Return what one role has found out."""
    found = re.search(rf"^{role}=(.*)$", text, re.MULTILINE)
    assert found is not None, text[-2000:]
    return dict(json.loads(found[1]))


def ways_out(found: dict[str, str]) -> dict[str, str]:
    """Return what was not denied, or by something else than the sandbox."""
    return {
        name: outcome
        for name, outcome in found.items()
        if outcome == "open" or (name.startswith(("call ", "clone ")) and outcome not in ("EPERM", "ENOSYS"))
    }


def finished(spec: Any, kind: str) -> Finished:
    """Run a job in a sandbox of one kind."""
    done = run(spec, environment(kind))
    assert done.report.environment["sandbox"]["kind"] == kind
    return done


BUILDING = """
# load_inline: so this is imported in the build first
import os
kept = os.path.join(os.environ["TORCH_EXTENSIONS_DIR"], "answer.json")
if os.path.exists(kept):
    print("build=" + open(kept).read())
    print("submission=" + answer)
else:
    os.makedirs(os.path.dirname(kept), exist_ok=True)
    open(kept, "w").write(answer)
def custom_kernel(data):
    return data * 2
"""


@pytest.mark.dear("attacks from three processes of a whole job, in each kind of sandbox")
def test_neither_submission_nor_build_nor_reference_gets_out(host: Host, kind: str) -> None:
    probes = calling(host)
    reference = REFERENCE + probes + '\nprint("judge=" + answer, flush=True)\n'
    limits = {"limits": dataclasses.replace(quick_spec("").limits, kept_output_bytes=1 << 20)}
    done = finished(quick_spec(probes + BUILDING, sources={"reference.py": reference}, **limits), kind)
    assert done.report.verdict is Verdict.ACCEPTED, done.report.message + done.report.stderr.text
    printed = done.report.stdout.text
    found = {role: answers(printed, role) for role in ("build", "submission")}
    found["judge"] = answers(done.log, "judge")
    assert {role: ways_out(each) for role, each in found.items()} == {role: {} for role in found}
    assert host.callers() == 0


@pytest.mark.jobs
def test_a_tasks_own_harness_does_not_get_out(host: Host, kind: str) -> None:
    main = calling(host) + '\nprint("own=" + answer)\n'
    limits = {"limits": dataclasses.replace(quick_spec("").limits, kept_output_bytes=1 << 20)}
    done = finished(own_spec(main, **limits), kind)
    assert ways_out(answers(done.report.stdout.text, "own")) == {}
    assert host.callers() == 0


@pytest.mark.jobs
def test_the_probes_do_find_what_is_open(host: Host) -> None:
    """Else the tests above would prove nothing."""
    # Nothing of the machine's own is opened for writing: this is no sandbox.
    writable = [name for name in host.targets["writable"] if name.endswith("writable.txt")]
    script = calling(host, writable=writable) + '\nprint("plain=" + answer)\n'
    done = subprocess.run(
        [sys.executable, "-I", "-"], input=script, capture_output=True, text=True, check=True, timeout=600
    )
    found = ways_out(answers(done.stdout, "plain"))
    assert {f"read {REPOSITORY / 'pyproject.toml'}", f"signal {os.getpid()}"} <= found.keys()
    assert f"write {writable[0]}" in found
    assert {f"list {REPOSITORY}", "list /tmp"} <= found.keys()
    assert {"connect IPv4", "connect abstract", "connect path", "connect AF_NETLINK"} <= found.keys()
    assert "from a pair to abstract datagrams" in found
    assert {"call ptrace", "call process_vm_readv", "call pidfd_getfd", "call keyctl"} <= found.keys()
    assert host.callers() >= 4


def test_every_call_of_the_table_is_in_the_filter() -> None:
    assert [name for name in CALLS if name not in seccomp.DENIED["x86_64"]] == []


@pytest.mark.jobs
def test_a_probe_without_a_sandbox_reads_the_runners_secret() -> None:
    """So that the environment is worth hiding: without a sandbox the parent's can be read."""
    body = "import os\nprint(open(f'/proc/{os.getppid()}/environ').read().count('" + SECRET + "'))\n"
    submission = body + "def custom_kernel(data):\n    return data * 2\n"
    done = run(quick_spec(submission, sandbox=SandboxPolicy.NONE), {SECRET: "its value"})
    assert done.report.stdout.text.strip() == "1"
