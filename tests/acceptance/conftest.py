"""Fixtures of the acceptance tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from cup import Cup

CONFIG = """\
[[devices]]
name = "emulated"
backend = "emulated"
"""


@pytest.fixture
def cup(tmp_path: Path) -> Cup:
    """The command line in a fresh home."""
    (tmp_path / "kernelcup.toml").write_text(CONFIG)
    return Cup(folder=tmp_path)
