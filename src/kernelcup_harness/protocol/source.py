"""Where the harness itself lies: in a folder, or in its bundle."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
"""The folder of the package."""
ROOT = PACKAGE.parent
"""The entry of the import path: a folder, or the file of the bundle."""
