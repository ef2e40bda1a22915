"""Fixtures of the acceptance tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from cup import Cup

from kernelcup_harness.isolation import sandbox

CONFIG = """\
[[devices]]
name = "emulated"
backend = "emulated"
"""


WITHOUT_SANDBOX = """
[sandbox]
required = false
"""
"""Where there is none, ranked runs have to be allowed without."""


@pytest.fixture
def cup(tmp_path: Path) -> Cup:
    """The command line in a fresh home."""
    (tmp_path / "kernelcup.toml").write_text(CONFIG if sandbox.is_there() else CONFIG + WITHOUT_SANDBOX)
    return Cup(folder=tmp_path)
