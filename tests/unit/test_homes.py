"""Tests do not depend on the developer's home."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import homes
from kernelcup.cli.credentials import Credentials

ASK = "import homes, os; print(homes.move_out(), os.environ['XDG_CONFIG_HOME'], 'KERNELCUP_SERVER' in os.environ)"


def test_the_home_of_tests_is_not_the_developers(tmp_path: Path) -> None:
    """As in conftest.py, in a process of its own: this one's home was moved before."""
    environment = {**os.environ, "HOME": str(tmp_path), "KERNELCUP_SERVER": "https://cup.example.org"}
    folder = str(Path(homes.__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", ASK], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    home, config, has_server = done.stdout.split()
    assert home != str(tmp_path)
    assert config == f"{home}/.config"
    assert has_server == "False"


def test_no_test_is_signed_in() -> None:
    assert Path(os.environ["HOME"]).name.startswith("kc-")
    assert Credentials.load(os.environ).default is None
