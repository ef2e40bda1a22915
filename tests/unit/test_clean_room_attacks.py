"""The jobs that try attacks on a GPU, and what their reports are taken for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/judged/attacks"))
import clean_room_attacks as attacks
import corpus

from kernelcup_harness.protocol import Backend


def test_every_attack_on_the_clock_has_a_job_and_a_twin() -> None:
    found = {each.name: each for each in attacks.entries()}

    assert {each.name for each in corpus.clock_attacks()} <= found.keys()
    assert all(found[each.twin].role == "honest" for each in found.values() if each.role == "attack")


def test_another_yaml_reader_reads_the_same() -> None:
    for listing in sorted(attacks.ATTACKS.glob("*/attack.yml")):
        assert attacks.read_yaml(listing) == YAML(typ="safe").load(listing)


def test_attack_and_twin_have_the_same_inputs_in_a_run() -> None:
    found = {each.name: each for each in attacks.entries()}
    mine = found["v29_memo"]
    first, twin, second = (
        attacks.spec_of(entry, run, Backend.CUDA)
        for entry, run in ((mine, 0), (found[mine.twin], 0), (mine, 1))
    )

    assert first.secret_seed == twin.secret_seed != second.secret_seed
    assert first.benchmarks == twin.benchmarks
    assert first.rival == twin.submission


@pytest.mark.parametrize(
    ("printed", "log", "message", "does"),
    [
        ("acted: once\n", "", "", True),
        ("", "marks 65536 [3, 0]\n", "", True),
        ("", "", "the replay of its calls failed on the device: 700", True),
        ("", "marks 4096 [3, 0]\n", "", False),
        ("it acted\n", "", "", False),
    ],
)
def test_only_calls_that_count_show_that_an_attack_acted(
    printed: str, log: str, message: str, does: bool
) -> None:
    report: dict[str, Any] = {"stdout": {"text": printed}, "message": message}

    assert attacks.acted(attacks.said(report, log)) is does
