"""Put a process that runs foreign code into a sandbox of its own, by bubblewrap.

Inside there is no network, no other process, and of the host's files only a list that is read-only:
system programs and libraries, the Python in use, and the files of the job. What can be written is
memory of limited size that goes with the sandbox, and for a task's own harness one folder of the job
for what was compiled. Started by root, the process first becomes a user who owns nothing: an id that
is merely mapped would still read root's files.
"""

from __future__ import annotations

import functools
import os
import shutil
import site
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernelcup_harness import seccomp

JUDGE_ID = 64917
CONTESTANT_ID = 64918
WORK = "/job"
SCRATCH = "/tmp"
KEPT = "/kept"
SCRATCH_BYTES = 4 << 30
SHARED_MEMORY_BYTES = 2 << 30

SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")
SYSTEM_FILES = (
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/localtime",
)
# Nodes that CUDA and ROCm open. Which GPU is used is said by CUDA_VISIBLE_DEVICES.
NVIDIA_NODES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset", "nvidia-caps")
AMD_NODES = ("kfd", "dri")


@dataclass(frozen=True, kw_only=True, slots=True)
class Sandbox:
    """What one process gets to see."""

    user_id: int
    files: Path
    """A folder whose files are laid into the working folder, read-only."""
    gpu: bool = False
    visible: tuple[str, ...] = ()
    """Further folders that it may read."""
    writable_files: bool = False
    """Copy the files instead, so that the process may change its own copies."""
    scratch_bytes: int = SCRATCH_BYTES
    kept: Path | None = None
    """A folder from :func:`kept_folder`, writable as ``KEPT``: it outlives the sandbox."""
    network: bool = False
    """Let processes inside talk to each other over the sandbox's own loopback."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A command line, and what must be open while it is started."""

    argv: list[str]
    fds: list[int] = field(default_factory=list)

    def close(self) -> None:
        """Close what was only needed for starting."""
        for fd in self.fds:
            os.close(fd)


@functools.cache
def bubblewrap() -> str | None:
    """Return the path of a bubblewrap that works here, None without one. Tries it once."""
    path = shutil.which("bwrap")
    if path is None or not seccomp.is_supported():
        return None
    # A trial says more than any check of versions and kernel settings.
    with tempfile.TemporaryDirectory(prefix="kernelcup-trial-") as folder:
        trial = Sandbox(user_id=CONTESTANT_ID, files=Path(folder))
        prepared = prepare(trial, ["/bin/true"], {}, program=path)
        try:
            done = subprocess.run(
                prepared.argv, pass_fds=prepared.fds, capture_output=True, timeout=20, check=False
            )
        except (OSError, subprocess.SubprocessError):
            return None
        finally:
            prepared.close()
    return path if done.returncode == 0 else None


def describe() -> dict[str, str]:
    """Say what is in force here, for the report of a run."""
    if bubblewrap() is None:
        return {"kind": "none", "why": "bubblewrap is missing or does not work here"}
    how = "a user of its own" if os.getuid() == 0 else "a user namespace"
    return {"kind": "bubblewrap", "privileges": how, "network": "none", "seccomp": "denylist"}


def prepare(
    box: Sandbox, argv: Sequence[str], environment: Mapping[str, str], *, program: str | None = None
) -> Prepared:
    """Return the command that runs ``argv`` inside. Raise ``RuntimeError`` without a bubblewrap."""
    path = program or bubblewrap()
    if path is None:
        raise RuntimeError("no bubblewrap that works")
    make_readable(box.files)
    seccomp_fd = memory_file(seccomp.program(network=box.network))
    settings = {memory_file(text.encode()): name for name, text in made_settings(box).items()}
    options = [path, *isolation(box.user_id), *file_systems(box)]
    for fd, name in settings.items():
        options += ["--perms", "0644", "--ro-bind-data", str(fd), name]
    options += ["--seccomp", str(seccomp_fd), "--chdir", WORK, "--clearenv"]
    for name, value in {**environment, "USER": "kernelcup", "LOGNAME": "kernelcup"}.items():
        options += ["--setenv", name, value]
    return Prepared(
        argv=[*options, "--", *become(box.user_id), *argv],
        fds=[seccomp_fd, *settings],
    )


def made_settings(box: Sandbox) -> dict[str, str]:
    """Return the files below /etc that are not the host's, name to text."""
    user = box.user_id
    made = {
        "/etc/passwd": f"kernelcup:x:{user}:{user}::{SCRATCH}:/bin/sh\n",
        "/etc/group": f"kernelcup:x:{user}:\n",
    }
    if box.network:
        # The usual MASTER_ADDR is a name, and libraries look up the name of their own host.
        made["/etc/hosts"] = "127.0.0.1 localhost kernelcup\n::1 localhost\n"
        made["/etc/nsswitch.conf"] = "hosts: files\n"
    return made


def make_readable(folder: Path) -> None:
    """Let every user read a folder and what is in it, whatever the umask was."""
    folder.chmod(0o755)
    for path in folder.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)


def kept_folder(parent: Path, user_id: int) -> Path | None:
    """Make a folder that a sandbox may write to, None where compiled code could not be loaded from it."""
    folder = Path(tempfile.mkdtemp(prefix="kept-", dir=parent))
    if os.statvfs(folder).f_flag & os.ST_NOEXEC:
        return None
    if os.getuid() == 0:
        os.chown(folder, user_id, user_id)
    return folder


def isolation(user_id: int) -> list[str]:
    """Return the options about namespaces and privileges."""
    options = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    options += ["--die-with-parent", "--new-session", "--hostname", "kernelcup", "--cap-drop", "ALL"]
    if os.getuid() == 0:
        # What it takes to become somebody else, and gone once that is done.
        return [*options, "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    mapped = ["--unshare-user", "--disable-userns", "--uid", str(user_id), "--gid", str(user_id)]
    return [*options[:-2], *mapped, *options[-2:]]


def become(user_id: int) -> list[str]:
    """Return the command that drops root, nothing where we are not root."""
    if os.getuid() != 0:
        return []
    # Leaving uid 0 empties the sets of capabilities; with no_new_privs nothing brings them back.
    identity = ["--reuid", str(user_id), "--regid", str(user_id), "--clear-groups"]
    return ["/usr/bin/setpriv", *identity, "--no-new-privs", "--"]


def file_systems(box: Sandbox) -> list[str]:
    """Return the options that build the tree of files."""
    options = ["--proc", "/proc", "--dev", "/dev"]
    options += ["--perms", "1777", "--size", str(SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm"]
    for folder in SYSTEM_FOLDERS:
        options += system_folder(folder)
    for file in SYSTEM_FILES:
        options += [*parents_of(file), "--ro-bind-try", file, file]
    options += ["--perms", "1777", "--size", str(box.scratch_bytes), "--tmpfs", SCRATCH]
    for folder in [*python_folders(), *box.visible]:
        options += [*parents_of(folder), "--ro-bind", folder, folder]
    options += ["--perms", "0777", "--size", str(box.scratch_bytes), "--tmpfs", WORK]
    options += laid_files(box)
    if box.kept is not None:
        options += ["--bind", str(box.kept), KEPT]
    return options + (gpu_nodes() if box.gpu else [])


def parents_of(folder: str) -> list[str]:
    """Return the options that make the folders above one, readable: by itself bwrap closes them."""
    above = [str(parent) for parent in Path(folder).parents if str(parent) != "/"][::-1]
    return [option for parent in above for option in ("--perms", "0755", "--dir", parent)]


def laid_files(box: Sandbox) -> list[str]:
    """Return the options that lay the job's files into the working folder."""
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


@functools.cache
def python_folders() -> tuple[str, ...]:
    """Return where Python, its packages and this harness lie, without what /usr shows already."""
    # The harness may be a folder or be run from its zip, which is shown as a file.
    root = Path(__file__).resolve().parent.parent
    harness = str(root if root.is_file() else Path(__file__).resolve().parent)
    candidates = [sys.base_prefix, sys.prefix, *site.getsitepackages(), harness]
    candidates += [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    candidates += [part for part in os.environ.get("LD_LIBRARY_PATH", "").split(":") if part]
    found: list[str] = []
    for candidate in candidates:
        for each in dict.fromkeys((os.path.abspath(candidate), os.path.realpath(candidate))):
            shown = any(each == top or each.startswith(top + "/") for top in ("/usr", *found))
            if not shown and each != "/" and (os.path.isdir(each) or each == harness):
                found.append(each)
    return tuple(found)


def gpu_nodes() -> list[str]:
    """Return the options that show the GPUs' device nodes and what the driver reads in /sys."""
    names = [*NVIDIA_NODES, *AMD_NODES, *(path.name for path in Path("/dev").glob("nvidia[0-9]*"))]
    options: list[str] = []
    for name in names:
        options += ["--dev-bind-try", f"/dev/{name}", f"/dev/{name}"]
    return [*options, "--ro-bind-try", "/sys", "/sys", "--ro-bind-try", "/opt/nvidia", "/opt/nvidia"]


def memory_file(content: bytes) -> int:
    """Return a descriptor from which ``content`` can be read once."""
    fd = os.memfd_create("kernelcup-option")
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
