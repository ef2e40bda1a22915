"""Environments of this machine: made from lock files, listed, exported.

A lock file names everything by hash::

    flags = ["-DKITTENS_HOPPER"]                # further arguments of nvcc

    [[wheels]]
    requirement = "nvidia-cutlass==4.2.0"       # as pip reads it
    hashes = ["sha256:f959..."]

    [[headers]]
    name = "thunderkittens"
    url = "https://..../ThunderKittens.tar.gz"
    sha256 = "..."
    include = ["ThunderKittens-main/include"]   # folders in the archive
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kernelcup.errors import InvalidValue
from kernelcup_harness.isolation.environments import (
    MANIFEST,
    SITE,
    VARIABLE,
    Environment,
    NoEnvironment,
    named,
    packages,
    read,
)
from kernelcup_harness.isolation.layout import make_readable
from kernelcup_harness.protocol import canonical_hash

FOLDER = "environments"
LOCK = "lock.toml"
UNFINISHED = ".new-"
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
MOST_BYTES = 1 << 30
"""Largest archive of headers."""
PIP = ("-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps", "--require-hashes")


@dataclass(frozen=True, kw_only=True, slots=True)
class Wheel:
    """A package, and the hashes of its files, one for each platform."""

    requirement: str
    hashes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Headers:
    """An archive, and the folders of headers in it."""

    name: str
    url: str
    sha256: str
    include: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Lock:
    """What an environment is made of."""

    wheels: tuple[Wheel, ...] = ()
    headers: tuple[Headers, ...] = ()
    flags: tuple[str, ...] = ()

    @property
    def hash(self) -> str:
        """A hash that is equal for equal content: everything is named by its hash."""
        return canonical_hash(asdict(self))


def read_lock(file: Path) -> tuple[Lock, str]:
    """Return a lock file and its text. Raise ``InvalidValue`` that names file and key."""
    try:
        text = file.read_text(encoding="utf-8")
        body = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidValue(f"{file}: {error}") from error
    reader = _Reader(file)
    reader.known(body, "", ("wheels", "headers", "flags"))
    wheels = tuple(
        Wheel(requirement=reader.text(each, at, "requirement"), hashes=reader.texts(each, at, "hashes"))
        for at, each in reader.tables(body, "wheels", ("requirement", "hashes"))
    )
    headers = tuple(
        Headers(
            name=reader.text(each, at, "name", NAME),
            url=reader.text(each, at, "url"),
            sha256=reader.text(each, at, "sha256", re.compile("[0-9a-f]{64}")),
            include=reader.texts(each, at, "include"),
        )
        for at, each in reader.tables(body, "headers", ("name", "url", "sha256", "include"))
    )
    flags = reader.texts(body, "", "flags") if "flags" in body else ()
    return Lock(wheels=wheels, headers=headers, flags=flags), text


class _Reader:
    """Checks the parts of a lock file. Everything raises ``InvalidValue``."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def tables(
        self, body: Mapping[str, Any], key: str, names: tuple[str, ...]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        found = body.get(key, [])
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            raise self._wrong(key, f"expected tables [[{key}]]")
        for number, each in enumerate(found):
            self.known(each, f"{key}.{number}.", names)
            yield f"{key}.{number}.", each

    def known(self, body: Mapping[str, Any], at: str, names: tuple[str, ...]) -> None:
        for key in body.keys() - set(names):
            raise self._wrong(f"{at}{key}", f"unknown; known are {', '.join(names)}")

    def text(self, body: Mapping[str, Any], at: str, key: str, form: re.Pattern[str] | None = None) -> str:
        value = body.get(key)
        if not isinstance(value, str) or not value.strip() or "\n" in value:
            raise self._wrong(f"{at}{key}", "expected a text of one line")
        if form is not None and not form.fullmatch(value):
            raise self._wrong(f"{at}{key}", f"expected the form {form.pattern}")
        return value

    def texts(self, body: Mapping[str, Any], at: str, key: str) -> tuple[str, ...]:
        value = body.get(key)
        if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
            raise self._wrong(f"{at}{key}", "expected a list of texts")
        return tuple(value)

    def _wrong(self, path: str, text: str) -> InvalidValue:
        return InvalidValue(f"{self._file}: {path}: {text}")


def build(root: Path, name: str, file: Path, say: Callable[[str], None]) -> Environment:
    """Make an environment from a lock file; an equal one is kept, another of that name replaced.

    Args:
        root: The machine's folder of environments.
        name: Its name.
        file: The lock file. Relative paths in it start at its folder.
        say: Receives a line for each step.

    Raises:
        InvalidValue: The name, the lock file, or what it names cannot be used.
    """
    if not NAME.fullmatch(name):
        raise InvalidValue(
            f"{name!r}: expected lower-case letters, digits, and `.`, `_`, `-` behind the first"
        )
    lock, text = read_lock(file)
    target = root / name
    if (there := find(root, name)) is not None and there.hash == lock.hash:
        return there
    root.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=root))
    try:
        _install(lock.wheels, made / SITE, file.parent, say)
        include = [folder for each in lock.headers for folder in _unpack(each, made, file.parent, say)]
        body = {"hash": lock.hash, "include": include, "flags": lock.flags}
        (made / MANIFEST).write_text(json.dumps(body), encoding="utf-8")
        (made / LOCK).write_text(text, encoding="utf-8")
        # The sandbox's user reads it, for any umask.
        make_readable(made)
        shutil.rmtree(target, ignore_errors=True)
        os.replace(made, target)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return read(target)


def _install(wheels: tuple[Wheel, ...], target: Path, base: Path, say: Callable[[str], None]) -> None:
    if not wheels:
        return
    say(f"packages: {', '.join(wheel.requirement for wheel in wheels)}")
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as wanted:
        for wheel in wheels:
            hashes = " ".join(f"--hash={each}" for each in wheel.hashes)
            wanted.write(f"{wheel.requirement} {hashes}\n")
        wanted.flush()
        argv = [sys.executable, *PIP, "--target", str(target), "-r", wanted.name]
        done = subprocess.run(argv, cwd=base, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InvalidValue(f"pip: {done.stderr.strip()[-2000:]}")


def _unpack(headers: Headers, made: Path, base: Path, say: Callable[[str], None]) -> list[str]:
    """Return the folders of headers, relative to the environment."""
    say(f"headers: {headers.url}")
    folder = made / "headers" / headers.name
    folder.mkdir(parents=True)
    with tempfile.NamedTemporaryFile() as archive:
        digest = hashlib.sha256()
        for chunk in _chunks(headers.url, base):
            digest.update(chunk)
            archive.write(chunk)
        archive.flush()
        if digest.hexdigest() != headers.sha256:
            raise InvalidValue(
                f"{headers.url}: its sha256 is {digest.hexdigest()}, expected {headers.sha256}"
            )
        try:
            if zipfile.is_zipfile(archive.name):
                with zipfile.ZipFile(archive.name) as packed:
                    packed.extractall(folder)
            else:
                with tarfile.open(archive.name) as packed_tar:
                    packed_tar.extractall(folder, filter="data")
        except (tarfile.TarError, zipfile.BadZipFile, OSError) as error:
            raise InvalidValue(f"{headers.url}: {error}") from error
    for each in headers.include:
        if not (folder / each).resolve().is_relative_to(folder.resolve()) or not (folder / each).is_dir():
            raise InvalidValue(f"{headers.url}: has no folder {each!r}")
    return [f"headers/{headers.name}/{each}" for each in headers.include]


def _chunks(url: str, base: Path) -> Iterator[bytes]:
    """Yield the bytes at an https address, or in a file beside the lock file."""
    total = 0
    try:
        source = (
            urllib.request.urlopen(url, timeout=60) if url.startswith("https://") else (base / url).open("rb")
        )
        with source:
            while chunk := source.read(1 << 20):
                total += len(chunk)
                if total > MOST_BYTES:
                    raise InvalidValue(f"{url}: more than {MOST_BYTES >> 20} MiB")
                yield chunk
    except OSError as error:
        raise InvalidValue(f"{url}: {error}") from error


def find(root: Path, name: str) -> Environment | None:
    """Return an environment, None if it is missing or damaged."""
    try:
        return read(root / name)
    except NoEnvironment:
        return None


def packages_here(root: Path, name: str) -> str:
    """Return the packages of an environment of this machine; empty if it is missing."""
    try:
        return packages(named(name, {VARIABLE: str(root)}))
    except NoEnvironment:
        return ""


def installed(root: Path) -> list[Environment]:
    """Return all environments of this machine, by name."""
    names = sorted(each.name for each in root.glob("*") if NAME.fullmatch(each.name))
    return [found for name in names if (found := find(root, name)) is not None]


def lock_text(root: Path, name: str) -> str:
    """Return the lock file that an environment was made from. Raise ``InvalidValue`` if there is none."""
    try:
        return (read(root / name).folder or root).joinpath(LOCK).read_text(encoding="utf-8")
    except (NoEnvironment, OSError) as error:
        raise InvalidValue(str(error)) from error


def list_origins(folder: Path) -> dict[str, Any]:
    """Have the harness list whose machine code the libraries of this machine hold; return its counts.

    Raise ``InvalidValue`` with the reason if it cannot.
    """
    argv = (sys.executable, "-P", "-m", "kernelcup_harness", "--origins")
    done = subprocess.run(
        argv, env={**os.environ, VARIABLE: str(folder)}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise InvalidValue(f"there is no list: {done.stderr.strip()[-1000:]}")
    found: dict[str, Any] = json.loads(done.stdout)["origins"]
    return found
