"""The next step after an error, by its code; shown if the error itself has no better one."""

from __future__ import annotations

from collections.abc import Mapping

from kernelcup_harness.protocol.data_files import read_table

NEXT_STEPS: Mapping[str, str] = read_table("kernelcup", "next_steps.toml")
