"""Roots made of Debian's packages, processes in them, and images that a Dockerfile's instructions make of them."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dockerfile_parse import DockerfileParser

MIRROR = "http://deb.debian.org/debian"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BUILDER = {
    **{path: path for path in ("/etc/resolv.conf", "/etc/pip.conf", "/etc/xdg/pip")},
    **{path: path for path in ("/opt/wheels", "/opt/pypi", "/opt/pypi-more")},
    str(Path.home() / ".config/pip"): "/root/.config/pip",
}
"""What tells this machine where packages are, of which a builder gets what there is."""
UNCOVER = ("sh", "-c", 'umount $(grep -o " /proc/[^ ]*" /proc/mounts) && exec "$@"', "sh")
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


@dataclass(frozen=True, kw_only=True)
class Image:
    """A folder that becomes the root of processes, and what they begin with."""

    root: Path
    environ: Mapping[str, str] = field(default_factory=lambda: {"PATH": PATH})
    workdir: str = "/"
    user: str = "root"
    command: tuple[str, ...] = ()
    is_confined: bool = True
    """Whether parts of /proc are covered, as Docker and bubblewrap do it: nothing may mount another one then."""


@dataclass(kw_only=True)
class Container:
    """A process whose root is an image's, and what it starts."""

    process: subprocess.Popen[bytes]
    inside: int
    """The first process of its namespace."""
    image: Image
    init: bool
    log: Path

    def run(self, *words: str, given: str = "") -> str:
        """Run a command beside it, as `docker exec` does, and return what it prints."""
        enter = ["nsenter", f"--target={self.inside}", "--mount", "--net", "--pid"]
        return run([*enter, *as_user(self.image, words)], given=given)

    def stop(self, patience_s: float = 30.0) -> None:
        """Send SIGTERM, and wait for the end."""
        if self.process.poll() is None:
            below = Path(f"/proc/{self.inside}/task/{self.inside}/children").read_text().split()
            for pid in below if self.init else [self.inside]:
                os.kill(int(pid), signal.SIGTERM)
        try:
            self.process.wait(patience_s)
        finally:
            self.process.kill()
            self.process.wait()


def run(words: Sequence[str], *, given: str = "") -> str:
    """Run a command that has to succeed, and return what it prints."""
    done = subprocess.run(words, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def as_user(image: Image, words: Sequence[str]) -> list[str]:
    """Return the command that has an image's environment and user, and nothing else of ours."""
    environ = [f"{name}={value}" for name, value in image.environ.items()]
    user = ["setpriv", f"--reuid={image.user}", f"--regid={image.user}", "--init-groups"]
    first = ["env", "-i", f"--chdir={image.workdir}", f"PATH={PATH}"]
    return [*first, *([] if image.user == "root" else user), "env", *environ, *words]


def enclosed(
    image: Image, words: Sequence[str], binds: Sequence[tuple[str, Path, str]] = (), *options: str
) -> list[str]:
    """Return the command that runs ``words`` in an image; of ``binds`` each is an option of bubblewrap's."""
    mounts = [part for option, source, target in binds for part in (option, str(source), target)]
    system = ["--dev", "/dev", "--proc", "/proc", "--ro-bind", "/sys", "/sys"]
    # What two containers of an image do not share, other than their root here.
    own = [part for folder in ("/dev/shm", "/run", "/tmp") for part in ("--perms", "1777", "--tmpfs", folder)]
    return [
        *("bwrap", "--cap-add", "ALL", "--die-with-parent", "--unshare-pid", "--unshare-ipc", *options),
        *("--bind", str(image.root), "/", *system, *own, *mounts, *([] if image.is_confined else UNCOVER)),
        *as_user(image, words),
    ]


def start(
    image: Image,
    words: Sequence[str],
    log: Path,
    *,
    network: str,
    binds: Sequence[tuple[str, Path, str]] = (),
    init: bool = True,
) -> Container:
    """Start a process in a network namespace. With ``init`` another one is the first of its namespace."""
    reading, writing = os.pipe()
    options = ["--info-fd", str(writing), *([] if init else ["--as-pid-1"])]
    command = [*("nsenter", f"--net=/run/netns/{network}"), *enclosed(image, words, binds, *options)]
    with log.open("ab") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, pass_fds=[writing]
        )
    os.close(writing)
    with os.fdopen(reading) as told:
        inside = json.load(told)["child-pid"]
    return Container(process=process, inside=inside, image=image, init=init, log=log)


def where_packages_are() -> tuple[list[tuple[str, Path, str]], dict[str, str]]:
    """Return what tells this machine where packages are: what is bound, and pip's environment."""
    binds = [("--ro-bind", Path(ours), its) for ours, its in BUILDER.items() if Path(ours).exists()]
    if not CERTIFICATES.exists():
        return binds, {}
    return [*binds, ("--ro-bind", CERTIFICATES, "/run/certificates")], {"PIP_CERT": "/run/certificates"}


def bootstrap(archive: Path, release: str = "bookworm", *packages: str) -> None:
    """Make an archive of Debian's smallest system, which starts no service of a package, as its image does not."""
    script = r'printf "#!/bin/sh\nexit 101\n" | install -m 755 /dev/stdin "$1/usr/sbin/policy-rc.d"'
    run(
        [
            "mmdebstrap",
            "--variant=minbase",
            "--quiet",
            f"--customize-hook={script}",
            *(f"--include={package}" for package in packages),
            release,
            str(archive),
            MIRROR,
        ]
    )


@dataclass(kw_only=True)
class Build:
    """Carries out the instructions of a Dockerfile, and knows no others."""

    folder: Path
    context: Path
    bases: Mapping[str, Path]
    """Archives by the names of images."""
    arguments: Mapping[str, str]
    image: Image | None = None
    stages: dict[str, Path] = field(default_factory=dict)
    given: dict[str, str] = field(default_factory=dict)
    """Arguments of this stage."""

    def carry_out(self, steps: Sequence[tuple[str, str]]) -> Image:
        """Carry out instructions, and return the image of the last stage."""
        for name, value in steps:
            getattr(self, f"_{name.lower()}")(value)
        assert self.image is not None
        return self.image

    def copy(self, folder: Path) -> Build:
        """Return another one that goes on from here, in a folder of its own."""
        assert self.image is not None
        folder.mkdir()
        root = folder / self.image.root.name
        run(["cp", "-a", str(self.image.root), str(root)])
        stages = {name: root if each == self.image.root else each for name, each in self.stages.items()}
        image = replace(self.image, root=root)
        return replace(self, folder=folder, image=image, stages=stages, given=dict(self.given))

    def _from(self, value: str) -> None:
        base, *name = re.fullmatch(r"(\S+)(?: AS (\w+))?", value).groups()  # type: ignore[union-attr]
        root = self.folder / f"stage-{len(self.stages)}"
        root.mkdir(parents=True)
        run(["tar", "-xf", str(self.bases[base]), "-C", str(root)])
        self.image, self.given = Image(root=root), {}
        self.stages[name[0] or ""] = root

    def _arg(self, value: str) -> None:
        name, _, default = value.partition("=")
        self.given[name] = self.arguments.get(name, default)

    def _run(self, value: str) -> None:
        binds, finding = where_packages_are()
        while cache := re.match(r"--mount=type=cache,target=(\S+)\s+", value):
            store = self.folder.parent / "caches" / cache[1].strip("/")
            store.mkdir(parents=True, exist_ok=True)
            binds.append(("--bind", store, cache[1]))
            value = value[cache.end() :]
        assert not value.startswith(("-", "[")), value
        here = self._now
        environ = {"HOME": "/root", "PIP_NO_INPUT": "1", **self.given, **here.environ, **finding}
        run(enclosed(replace(here, environ=environ), ["/bin/sh", "-c", value], binds))

    def _copy(self, value: str) -> None:
        words = shlex.split(value)
        source = self.context
        if words[0].startswith("--from="):
            source = self.stages[words.pop(0).removeprefix("--from=")]
        assert not any(re.match(r"-|.*[$*?]", word) for word in words), value
        *names, last = words
        target = self._now.root / str(Path(self._now.workdir) / last).lstrip("/")
        into = last.endswith("/") or len(names) > 1
        (target if into else target.parent).mkdir(parents=True, exist_ok=True)
        for name in names:
            path = source / name.lstrip("/")
            # The content of a folder, or a file; whatever it was, it is root's then.
            what = f"{path}/." if path.is_dir() else str(path)
            run(["cp", "-r", "--no-dereference", "--preserve=mode,timestamps,links", what, str(target)])

    def _env(self, value: str) -> None:
        ((name, text),) = (word.split("=", 1) for word in shlex.split(value))
        assert "$" not in text, value
        self.image = replace(self._now, environ={**self._now.environ, name: text})

    def _workdir(self, value: str) -> None:
        (self._now.root / value.lstrip("/")).mkdir(parents=True, exist_ok=True)
        self.image = replace(self._now, workdir=value)

    def _user(self, value: str) -> None:
        self.image = replace(self._now, user=value)

    def _cmd(self, value: str) -> None:
        self.image = replace(self._now, command=tuple(json.loads(value)))

    def _expose(self, value: str) -> None:
        """Says something to people only."""

    @property
    def _now(self) -> Image:
        assert self.image is not None
        return self.image


def steps_of(dockerfile: Path, folder: Path) -> list[tuple[str, str]]:
    """Return a Dockerfile's instructions and their values."""
    # The parser writes beside what it reads.
    shutil.copy(dockerfile, folder / "Dockerfile")
    found = DockerfileParser(str(folder), cache_content=True).structure
    return [(each["instruction"], each["value"]) for each in found if each["instruction"] != "COMMENT"]
