from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kernelcup.launchers.bundle import PACKAGE, harness_hash, kept_bundle, write_bundle


@pytest.fixture
def package(tmp_path: Path) -> Path:
    copy = tmp_path / "kernelcup_harness"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def test_a_bundle_is_equal_for_equal_sources(package: Path, tmp_path: Path) -> None:
    assert write_bundle(tmp_path / "one.zip") == write_bundle(tmp_path / "two.zip", package)
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


def test_a_bundle_can_be_imported(tmp_path: Path) -> None:
    bundle = tmp_path / "harness.zip"
    write_bundle(bundle)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import kernelcup_harness as p; print(p.__file__); "
        "from kernelcup_harness.protocol.first_errors import advice; print(advice('No module named triton'))"
    )
    command = [sys.executable, "-I", "-c", code, str(bundle)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(bundle))
    assert "Triton is not installed" in done.stdout
    assert "kernelcup_harness/protocol/report.py" in zipfile.ZipFile(bundle).namelist()


def test_the_hash_follows_each_change_of_a_file(tmp_path: Path) -> None:
    package = tmp_path / "kernelcup_harness"
    package.mkdir()
    file = package / "core.py"
    found = set()
    for text in ("a = 1\n", "a = 2\n"):
        file.write_text(text)
        found.add(harness_hash(package))
    (package / "more.py").write_text("")
    found.add(harness_hash(package))
    (package / "notes.txt").write_text("not a source")
    found.add(harness_hash(package))
    assert len(found) == 3
    assert kept_bundle(tmp_path / "kept") == kept_bundle(tmp_path / "kept")
