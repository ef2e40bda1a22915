"""The first choice of sandbox: bubblewrap, with namespaces of its own for everything.

Inside there is no network, no other process, and only a read-only list of the host's files. Writable
files are memory of limited size that is freed with the sandbox. Started by root, the process first
becomes a user who owns nothing: a merely mapped id would still read root's files.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from kernelcup_harness.isolation import seccomp
from kernelcup_harness.isolation.layout import (
    SCRATCH,
    SYSTEM_FILES,
    SYSTEM_FOLDERS,
    Sandbox,
    SandboxedCommand,
    make_readable,
    memory_file,
    python_folders,
)

WORK = "/job"
NOT_COUNTING = frozenset(
    "cmdline config.gz cpuinfo devices driver filesystems kallsyms meminfo misc modules sys version".split()
)
"""What in /proc, beside processes, says what the machine is and what memory it has now. The rest counts what has
happened since its start: a job could leave numbers there for a later one."""
SYSTEM_FACTS = (
    *(
        f"bus/pci/devices/*/{each}"
        for each in "class device vendor subsystem_* numa_node local_cpu* uevent".split()
    ),
    *(f"bus/pci/devices/*/{each}_link_{of}" for each in ("max", "current") for of in ("speed", "width")),
    *(
        "devices/system/cpu/[op]*",
        "devices/system/cpu/cpu*/topology/*",
        "devices/system/memory/block_size_bytes",
    ),
    *("devices/system/node/online", "devices/system/node/node*/cpu*", "devices/system/node/node*/distance"),
    *("class/pci_bus/*", "module/nvidia*/initstate"),
)
"""Patterns of the files of /sys that the driver, NCCL and hwloc ask for, and that count nothing."""


def describe() -> dict[str, str]:
    """Describe what is in force, for the report of a run."""
    how = "a user of its own" if os.getuid() == 0 else "a user namespace"
    return {"kind": "bubblewrap", "privileges": how, "network": "none", "seccomp": "denylist"}


def prepare(
    program: str,
    box: Sandbox,
    argv: Sequence[str],
    environment: Mapping[str, str],
) -> SandboxedCommand:
    """Return the command that runs ``argv`` inside; ``program`` is the path of bubblewrap."""
    seccomp_fd = memory_file(seccomp.program(network=box.network))
    settings = {memory_file(text.encode()): name for name, text in made_settings(box).items()}
    options = [*isolation(box.user_id), *file_systems(box)]
    if box.devices is not None:
        options += gpu_options(box.devices.paths, box.files.with_name(f"{box.files.name}-sys"))
    for fd, name in settings.items():
        options += ["--perms", "0644", "--ro-bind-data", str(fd), name]
    options += ["--seccomp", str(seccomp_fd), "--chdir", WORK, "--clearenv"]
    for name, value in environment.items():
        options += ["--setenv", name, value]
    # In the process table of the sandbox the first process has this command line: it names no folder of the host.
    options_fd = memory_file(b"".join(option.encode() + b"\0" for option in options))
    return SandboxedCommand(
        argv=[program, "--args", str(options_fd), "--", *become(box.user_id), *argv],
        fds=[seccomp_fd, options_fd, *settings],
        scratch_sizes=frozenset((box.scratch_bytes, box.shared_memory_bytes)),
        folder_inside=Path(WORK),
    )


def made_settings(box: Sandbox) -> dict[str, str]:
    """Return the files that replace the host's, name to text."""
    user = box.user_id
    made = {
        "/etc/passwd": f"kernelcup:x:{user}:{user}::{SCRATCH}:/bin/sh\n",
        "/etc/group": f"kernelcup:x:{user}:\n",
    }
    if box.network:
        # The usual MASTER_ADDR is a name, and libraries look up the name of their own host.
        made["/etc/hosts"] = "127.0.0.1 localhost kernelcup\n::1 localhost\n"
        made["/etc/nsswitch.conf"] = "hosts: files\n"
    return made | zeroed_counters()


def counting() -> list[Path]:
    """Return the files and folders of /proc that count, without processes and links to them."""
    named = [each for each in Path("/proc").iterdir() if not each.name.isdigit() and not each.is_symlink()]
    return sorted(each for each in named if each.name not in NOT_COUNTING)


@functools.cache
def zeroed_counters() -> dict[str, str]:
    """Return the files that count and that everybody may read, name to text, with each number replaced by 0."""
    made = {}
    for file in counting():
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if file.is_file() and file.stat().st_mode & stat.S_IROTH:
                made[str(file)] = re.sub(r"(?<![^\s./])\d+", "0", file.read_text())
    return made


def isolation(user_id: int) -> list[str]:
    """Return the options about namespaces and privileges."""
    options = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    options += ["--die-with-parent", "--new-session", "--hostname", "kernelcup", "--cap-drop", "ALL"]
    if os.getuid() == 0:
        # Needed to change the user, and dropped afterwards.
        return [*options, "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    mapped = ["--unshare-user", "--disable-userns", "--uid", str(user_id), "--gid", str(user_id)]
    return [*options[:-2], *mapped, *options[-2:]]


def become(user_id: int) -> list[str]:
    """Return the command that drops root, empty if this process is not root."""
    if os.getuid() != 0:
        return []
    # Leaving uid 0 empties the sets of capabilities; with no_new_privs nothing brings them back.
    identity = ["--reuid", str(user_id), "--regid", str(user_id), "--clear-groups"]
    return ["/usr/bin/setpriv", *identity, "--no-new-privs", "--"]


def file_systems(box: Sandbox) -> list[str]:
    """Return the options that build the tree of files."""
    options = ["--proc", "/proc", "--dev", "/dev"]
    for folder in filter(os.path.isdir, [*map(str, counting()), "/proc/sys/fs"]):
        options += ["--perms", "0555", "--size", "4096", "--tmpfs", folder]
    options += ["--perms", "1777", "--size", str(box.shared_memory_bytes), "--tmpfs", "/dev/shm"]
    for folder in SYSTEM_FOLDERS:
        options += system_folder(folder)
    for file in SYSTEM_FILES:
        options += [*parents_of(file), "--ro-bind-try", file, file]
    options += ["--perms", "1777", "--size", str(box.scratch_bytes), "--tmpfs", SCRATCH]
    for folder in [*python_folders(), *box.visible]:
        options += [*parents_of(folder), "--ro-bind", folder, folder]
    options += ["--perms", "0777", "--size", str(box.scratch_bytes), "--tmpfs", WORK]
    return options + laid_files(box)


def parents_of(folder: str) -> list[str]:
    """Return the options that make a folder's parents readable: by default bwrap closes them."""
    above = [str(parent) for parent in Path(folder).parents if str(parent) != "/"][::-1]
    return [option for parent in above for option in ("--perms", "0755", "--dir", parent)]


def laid_files(box: Sandbox) -> list[str]:
    """Return the options that put the job's files into the working folder."""
    options: list[str] = []
    for path in sorted(box.files.rglob("*")):
        inside = f"{WORK}/{path.relative_to(box.files)}"
        options += ["--perms", "0755", "--dir", inside] if path.is_dir() else ["--ro-bind", str(path), inside]
    return options


def system_folder(folder: str) -> list[str]:
    """Return the options for a folder at the root, which may be a link into /usr."""
    path = Path(folder)
    if path.is_symlink():
        return ["--symlink", os.readlink(folder), folder]
    return ["--ro-bind", folder, folder] if path.is_dir() else []


def gpu_options(devices: Sequence[str], facts: Path) -> list[str]:
    """Return the options that show device nodes of GPUs, and copies in a folder of the driver's files in /sys."""
    options: list[str] = []
    for path in devices:
        options += [*parents_of(path), "--dev-bind-try", path, path]
    copy_facts(facts)
    return [*options, "--ro-bind", str(facts), "/sys", "--ro-bind-try", "/opt/nvidia", "/opt/nvidia"]


def copy_facts(folder: Path) -> None:
    """Copy the files of :data:`SYSTEM_FACTS` with the links that lead to them."""
    top = Path("/sys")
    for found in (each for pattern in SYSTEM_FACTS for each in top.glob(pattern)):
        place = folder / found.resolve().relative_to(top)
        (place if found.is_dir() else place.parent).mkdir(parents=True, exist_ok=True)
        if found.is_file():
            with contextlib.suppress(OSError):  # of a device that is asleep, for example
                place.write_bytes(found.read_bytes())
        for link in (each for each in (found, found.parent) if each.is_symlink()):
            named = folder / link.relative_to(top)
            named.parent.mkdir(parents=True, exist_ok=True)
            if not named.is_symlink():
                named.symlink_to(link.readlink())
    folder.mkdir(exist_ok=True)
    make_readable(folder)
