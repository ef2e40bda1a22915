"""Environments: made from lock files, found by the harness, named in tasks."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelcup.app.boards.judgeable import check_judgeable
from kernelcup.domain import Device, Task
from kernelcup.errors import EnvironmentMissing, InvalidValue
from kernelcup.launchers import environments
from kernelcup_harness.isolation import environments as harness_side
from kernelcup_harness.protocol import Backend
from kernelcup_harness.submission.cuda import libraries
from kernelcup_harness.submission.port import NotCompiled

KITTENS = "ThunderKittens-main/include"


def silent(_line: str) -> None:
    """Say nothing."""


def archive(folder: Path, name: str = "kittens.tar.gz", *, inside: str = f"{KITTENS}/kittens.cuh") -> str:
    """Write an archive with one header; return its sha256."""
    with tarfile.open(folder / name, "w:gz") as packed:
        content = b"#pragma once\n#define KITTENS 1\n"
        entry = tarfile.TarInfo(inside)
        entry.size = len(content)
        packed.addfile(entry, io.BytesIO(content))
    return hashlib.sha256((folder / name).read_bytes()).hexdigest()


def wheel(folder: Path) -> str:
    """Write a package with one module; return its sha256."""
    path = folder / "kc_demo-1.0-py3-none-any.whl"
    info = "kc_demo-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("kc_demo.py", "ANSWER = 42\n")
        packed.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: kc-demo\nVersion: 1.0\n")
        packed.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        packed.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def headers_lock(folder: Path, **changes: str) -> Path:
    """Write a lock file of one archive of headers."""
    values = {"url": "kittens.tar.gz", "sha256": archive(folder), "include": KITTENS} | changes
    lock = folder / "kittens.toml"
    lock.write_text(
        'flags = ["-DKITTENS_HOPPER"]\n[[headers]]\nname = "thunderkittens"\n'
        f'url = "{values["url"]}"\nsha256 = "{values["sha256"]}"\ninclude = ["{values["include"]}"]\n'
    )
    return lock


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "environments"


def test_headers_come_by_archive_and_hash_and_are_found_by_the_name_of_their_library(
    root: Path, tmp_path: Path
) -> None:
    made = environments.build(root, "kittens", headers_lock(tmp_path), silent)

    found = harness_side.named("kittens", {harness_side.VARIABLE: str(root)})
    assert (found.hash, found.flags) == (made.hash, ("-DKITTENS_HOPPER",))
    said = libraries.arguments({**found.variables, libraries.VARIABLE: "thunderkittens"})
    header = root / "kittens/headers/thunderkittens" / KITTENS
    assert said == libraries.CompilerArguments(compile=(f"-isystem={header}", "-DKITTENS_HOPPER"))
    assert (header / "kittens.cuh").stat().st_mode & 0o004


def test_packages_come_by_hash_and_are_importable(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "demo.toml"
    lock.write_text(
        f'[[wheels]]\nrequirement = "./kc_demo-1.0-py3-none-any.whl"\nhashes = ["sha256:{wheel(tmp_path)}"]\n'
    )
    made = environments.build(root, "demo", lock, silent)
    monkeypatch.setattr("sys.path", ["first"])

    harness_side.use(made.variables)

    import sys

    assert sys.path == ["first", str(root / "demo/site")]
    assert (root / "demo/site/kc_demo.py").read_text() == "ANSWER = 42\n"


def test_a_package_with_another_hash_is_not_installed(root: Path, tmp_path: Path) -> None:
    wheel(tmp_path)
    lock = tmp_path / "demo.toml"
    lock.write_text(
        f'[[wheels]]\nrequirement = "./kc_demo-1.0-py3-none-any.whl"\nhashes = ["sha256:{"0" * 64}"]\n'
    )
    with pytest.raises(InvalidValue, match="HASHES"):
        environments.build(root, "demo", lock, silent)
    assert not list(root.iterdir())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sha256": "0" * 64}, "its sha256 is"),
        ({"include": "elsewhere"}, "has no folder 'elsewhere'"),
        ({"include": "../.."}, r"has no folder '\.\./\.\.'"),
        ({"url": "missing.tar.gz"}, "missing.tar.gz"),
        ({"sha256": "abc"}, r"kittens.toml: headers.0.sha256: expected the form"),
    ],
)
def test_an_archive_that_is_not_what_the_lock_says_makes_no_environment(
    root: Path, tmp_path: Path, changes: dict[str, str], said: str
) -> None:
    with pytest.raises(InvalidValue, match=said):
        environments.build(root, "kittens", headers_lock(tmp_path, **changes), silent)
    assert environments.installed(root) == []


def test_an_archive_cannot_write_outside_of_its_folder(root: Path, tmp_path: Path) -> None:
    digest = archive(tmp_path, "evil.tar.gz", inside="../../escaped")
    lock = headers_lock(tmp_path, url="evil.tar.gz", sha256=digest)
    with pytest.raises(InvalidValue, match=r"evil\.tar\.gz"):
        environments.build(root, "kittens", lock, silent)
    assert not list(tmp_path.rglob("escaped"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("wheels = 3", "wheels: expected tables"),
        ("packages = []", "packages: unknown; known are wheels, headers, flags"),
        ('[[wheels]]\nrequirement = "a"', "wheels.0.hashes: expected a list of texts"),
        (
            '[[wheels]]\nrequirement = "a\\n-r b"\nhashes = []',
            "wheels.0.requirement: expected a text of one line",
        ),
        ('flags = "-O3"', "flags: expected a list of texts"),
        ("flags = [", "kittens.toml: "),
    ],
)
def test_a_lock_file_with_a_fault_names_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    lock = tmp_path / "kittens.toml"
    lock.write_text(text)
    with pytest.raises(InvalidValue, match=said) as error:
        environments.read_lock(lock)
    assert str(lock) in str(error.value)


def test_the_exported_lock_makes_the_same_environment(root: Path, tmp_path: Path) -> None:
    made = environments.build(root, "kittens", headers_lock(tmp_path), silent)
    (tmp_path / "again.toml").write_text(environments.lock_text(root, "kittens"))

    again = environments.build(tmp_path / "laptop", "kittens", tmp_path / "again.toml", silent)

    assert again.hash == made.hash


def test_an_equal_environment_is_kept_and_another_replaced(root: Path, tmp_path: Path) -> None:
    steps: list[str] = []
    lock = headers_lock(tmp_path)
    first = environments.build(root, "kittens", lock, steps.append)
    assert environments.build(root, "kittens", lock, steps.append) == first
    assert len(steps) == 1

    lock.write_text(lock.read_text().replace("HOPPER", "BLACKWELL"))
    second = environments.build(root, "kittens", lock, steps.append)

    assert second.hash != first.hash
    assert [each.flags for each in environments.installed(root)] == [("-DKITTENS_BLACKWELL",)]
    assert [each.name for each in root.iterdir()] == ["kittens"]


@pytest.mark.parametrize("name", ["../kittens", "", "Kittens", ".new-1"])
def test_a_name_that_is_no_folder_is_refused(root: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidValue, match="expected lower-case letters"):
        environments.build(root, name, headers_lock(tmp_path), silent)


@pytest.mark.parametrize("environ", [{}, {harness_side.VARIABLE: "/nowhere"}])
@pytest.mark.parametrize("name", ["kittens", "../kittens"])
def test_a_job_for_an_environment_that_is_not_there_says_so(environ: dict[str, str], name: str) -> None:
    with pytest.raises(harness_side.NoEnvironment, match="this machine has no environment"):
        harness_side.named(name, environ)


def test_the_default_environment_is_what_pip_brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    hashes = []
    for name in ("torch-2.11.0", "requests-2.0", "nvidia_cublas-13.1"):
        (tmp_path / f"{name}.dist-info").mkdir()
        hashes.append(harness_side.named("", {}).hash)
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("cublas2", "names 'cublas2'; known are cublas, cublaslt"),
        (
            "thunderkittens",
            r"default environment of this machine lacks the library 'thunderkittens' \(kittens.cuh\)",
        ),
    ],
)
def test_a_library_that_is_missing_is_named_with_what_brings_it(name: str, said: str) -> None:
    with pytest.raises(NotCompiled, match=said):
        libraries.arguments({libraries.VARIABLE: name})


def test_a_library_is_linked_by_the_file_that_its_package_brings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "nvidia/cu13"
    for file in ("include/cublasLt.h", "lib/libcublasLt.so.13", "lib/libcublasLt.so.13.1.0"):
        (package / file).parent.mkdir(parents=True, exist_ok=True)
        (package / file).touch()
    monkeypatch.setattr("site.getsitepackages", lambda: [str(tmp_path)])

    said = libraries.arguments({libraries.VARIABLE: "cublaslt"})

    lib = package / "lib"
    assert said.compile == (f"-isystem={package / 'include'}",)
    assert said.link == ("-Xlinker", str(lib / "libcublasLt.so.13"), "-Xlinker", f"-rpath,{lib}")


def test_a_leaderboard_whose_machine_lacks_the_environment_is_refused() -> None:
    task = Task(name="gemm", sources={}, environment="cuda13-cutlass")
    make: Callable[..., Device] = lambda **more: Device(name="H100", backend=Backend.CUDA, **more)  # noqa: E731

    with pytest.raises(EnvironmentMissing, match="it has kittens") as error:
        check_judgeable(task, ["h100"], [make(environments=frozenset({"kittens"}))])
    assert error.value.code == "environment_missing"
    check_judgeable(task, ["H100"], [make(environments=frozenset({"cuda13-cutlass"}))])
    # What another machine has is known to that machine only.
    check_judgeable(task, ["H100"], [make(launcher="ray")])
