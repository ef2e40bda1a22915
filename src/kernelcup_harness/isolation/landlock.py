"""The second choice of sandbox, if bubblewrap does not work: Landlock and seccomp, from Python.

:func:`enter` runs in the new process, in place of bubblewrap: it becomes a user who owns nothing, lets
Landlock close all files but those on a list, loads the seccomp filter, and becomes the program, whose
parent stays to end all that it starts. There is no private /proc and no private network: other processes
are visible if /proc is shown, and all sockets are denied except connected pairs of related processes.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import struct
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

from kernelcup_harness.isolation import disk_usage
from kernelcup_harness.protocol.source import ROOT

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION_FLAG = 1
RULE_PATH_BENEATH = 1
PR_SET_PDEATHSIG, PR_SET_KEEPCAPS, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 1, 8, 22, 38, 47
PR_CAP_AMBIENT_RAISE, PR_SET_CHILD_SUBREAPER = 2, 36
CAPABILITY_VERSION_3 = 0x20080522
CAP_DAC_READ_SEARCH = 2
SECCOMP_MODE_FILTER = 2
SCOPES = 6
"""The first version that keeps signals and calls of abstract sockets inside."""

# LANDLOCK_ACCESS_FS_*
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE = 1 << 4, 1 << 5
MAKE_DIR, MAKE_REG, MAKE_FIFO, MAKE_SYM = 1 << 7, 1 << 8, 1 << 10, 1 << 12
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV

READ = EXECUTE | READ_FILE | READ_DIR
DEVICE = READ_FILE | WRITE_FILE | READ_DIR | IOCTL_DEV
WRITE = READ | WRITE_FILE | TRUNCATE | REMOVE_DIR | REMOVE_FILE | REFER
WRITE |= MAKE_DIR | MAKE_REG | MAKE_FIFO | MAKE_SYM
# Holds the locks of multiprocessing. Listing is denied, because others have files there too.
SHARED_MEMORY = READ_FILE | WRITE_FILE | TRUNCATE | MAKE_REG | REMOVE_FILE

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
# Files that libraries read about the machine, without the folders of processes.
MACHINE_FILES = (
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/loadavg",
    "/proc/version",
    "/proc/filesystems",
    "/proc/sys/vm",
    "/proc/sys/kernel/pid_max",
    "/proc/sys/kernel/threads-max",
    "/proc/sys/kernel/random",
)

Rule = tuple[str, int]


def abi() -> int:
    """Return the version of Landlock in this kernel, 0 for none."""
    return max(0, call(CREATE_RULESET, 0, 0, VERSION_FLAG))


def describe(version: int) -> dict[str, str]:
    """Describe what is in force and what is weaker than in bubblewrap, for the report of a run."""
    weaker = [
        "names and owners of files are visible, their contents are not",
        "/dev/shm is shared with the machine, or closed to a job without a user of its own",
        "written files lie on disk",
        "a job with a GPU sees the list of processes",
    ]
    if version < SCOPES:
        weaker.append("signals reach other processes of the same user")
    return {"kind": "landlock", "abi": str(version), "weaker": "; ".join(weaker)}


def handled_rights(version: int) -> int:
    """Return all file rights of a version: rights that are not granted are denied."""
    newest = {1: 12, 2: 13, 3: 14, 4: 14}.get(version, 15)
    return (1 << (newest + 1)) - 1


def ruleset_attributes(version: int) -> bytes:
    """Return ``struct landlock_ruleset_attr`` in the length of this version."""
    # From 4 on: no port may be bound or connected to.
    network = 3 if version >= 4 else 0
    scopes = 3 if version >= SCOPES else 0
    size = 8 if version < 4 else 16 if version < SCOPES else 24
    return struct.pack("=QQQ", handled_rights(version), network, scopes)[:size]


def call(number: int, *arguments: object) -> int:
    """Make a system call; return -1 if it failed, with the reason in ``ctypes.get_errno()``."""
    prepared = [
        argument if isinstance(argument, ctypes.Array) else ctypes.c_ulong(int(str(argument)))
        for argument in arguments
    ]
    return int(ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *prepared))


def checked(result: int, what: str) -> int:
    """Return the result of a call. Raise ``OSError`` if it failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def restrict(rules: Iterable[Rule], version: int) -> None:
    """Deny all files to this process and its children, except those that the rules grant."""
    attributes = ruleset_attributes(version)
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    ruleset = checked(call(CREATE_RULESET, buffer, len(attributes), 0), "landlock_create_ruleset")
    for path, rights in rules:
        # Missing files need no rule.
        with contextlib.suppress(FileNotFoundError):
            add_rule(ruleset, path, rights & handled_rights(version))
    checked(call(RESTRICT_SELF, ruleset, 0), "landlock_restrict_self")
    os.close(ruleset)


def add_rule(ruleset: int, path: str, rights: int) -> None:
    """Grant rights to a file, or to a folder and everything below it."""
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not os.path.isdir(path):
            rights &= FILE_RIGHTS
        # `struct landlock_path_beneath_attr` is packed.
        rule = struct.pack("=Qi", rights, fd)
        buffer = ctypes.create_string_buffer(rule, len(rule))
        checked(call(ADD_RULE, ruleset, RULE_PATH_BENEATH, buffer, 0), f"landlock_add_rule for {path}")
    finally:
        os.close(fd)


def load_filter(program: bytes) -> None:
    """Load a seccomp filter for this process and its children."""
    code = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog { unsigned short length; struct sock_filter *code; }
    head = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    buffer = ctypes.create_string_buffer(head, len(head))
    library = ctypes.CDLL(None, use_errno=True)
    checked(library.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, buffer, 0, 0), "the seccomp filter")


def rules(shown: Sequence[str], scratch: Path, devices: Sequence[str], *, gpu: bool) -> list[Rule]:
    """Return the rules of a sandbox: folders to read, one to write to, devices.

    The CUDA driver names its threads through /proc, and no rule can grant only its own folders there.
    Other processes stay protected: Landlock denies a sandboxed process the memory, the environment and
    the descriptors of processes outside.
    """
    found = [(path, READ) for path in shown]
    # Python lists the parent folder to find the harness. Names are not protected.
    above = ROOT
    found += [(str(above), READ_DIR)] if above.is_dir() else []
    found += [(path, READ | WRITE_FILE) for path in DEVICES]
    found += [(path, DEVICE) for path in devices]
    found += [(str(scratch), WRITE)]
    if not gpu:
        return found + [(path, READ) for path in (*MACHINE_FILES, "/proc/self")]
    return [*found, ("/proc", READ | WRITE_FILE), ("/sys", READ), ("/opt/nvidia", READ)]


def become(user_id: int, *, reads_all: bool) -> None:
    """Stop being root.

    With ``reads_all`` the user keeps one of root's rights, to read files of others: a Python below
    /root could not run otherwise. Landlock still denies files that are not on the list.
    """
    library = ctypes.CDLL(None, use_errno=True)
    if reads_all:
        checked(library.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0), "keepcaps")
    os.setgroups([])
    os.setresgid(user_id, user_id, user_id)
    os.setresuid(user_id, user_id, user_id)
    if reads_all:
        bit = 1 << CAP_DAC_READ_SEARCH
        # struct __user_cap_header_struct, and twice effective, permitted, inheritable
        head = ctypes.create_string_buffer(struct.pack("=Ii", CAPABILITY_VERSION_3, 0), 8)
        data = ctypes.create_string_buffer(struct.pack("=IIIIII", bit, bit, bit, 0, 0, 0), 24)
        checked(library.capset(head, data), "capset")
        raised = library.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_READ_SEARCH, 0, 0)
        checked(raised, "an ambient capability")


def fork(parent: int) -> int:
    """Return in a new process, with the id of this one, which ends it with ``parent`` and all that it has started."""
    library = ctypes.CDLL(None, use_errno=True)
    library.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    library.prctl(PR_SET_PDEATHSIG, signal.SIGCHLD, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    own, child = os.getpid(), os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        return own
    # The child's channels end with it.
    os.closerange(0, os.sysconf("SC_OPEN_MAX"))
    ended = status = 0
    while not ended and os.getppid() == parent:
        signal.sigwait([signal.SIGCHLD])
        ended, status = os.waitpid(child, os.WNOHANG)
    # What loses its parent becomes a child of this process.
    while left := disk_usage.children(own):
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        os.wait()
    code = os.waitstatus_to_exitcode(status) if ended else 1
    os._exit(code if code >= 0 else 128 - code)


def enter(settings_fd: str, *argv: str) -> NoReturn:
    """Go into the sandbox that the settings describe and become the program ``argv``."""
    with open(int(settings_fd), "rb") as file:
        settings = json.load(file)
    supervisor = fork(settings["parent"])
    library = ctypes.CDLL(None, use_errno=True)
    if settings["user_id"] is not None:
        become(settings["user_id"], reads_all=settings["reads_all"])
    # Set here, because a change of user resets it.
    library.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != supervisor:
        os._exit(1)
    checked(library.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    os.chdir(settings["work"])
    restrict([(path, rights) for path, rights in settings["rules"]], settings["abi"])
    load_filter(bytes.fromhex(settings["filter"]))
    program = shutil.which(argv[0]) or argv[0]
    os.execv(program, argv)


def trampoline(settings_fd: int, argv: Sequence[str]) -> list[str]:
    """Return the command that calls :func:`enter`."""
    root = str(ROOT)
    code = f"import sys; sys.path.insert(0, {root!r}); "
    code += "from kernelcup_harness.isolation import landlock; landlock.enter(*sys.argv[1:])"
    return [sys.executable, "-I", "-S", "-B", "-c", code, str(settings_fd), *argv]
