"""What lies between the GPUs of a host."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernelcup.cli.operate import doctor
from kernelcup_harness.device.nvidia.topology import Topology, links_in, summary

NVLINK = """\
\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV18\tPIX\t0-47\t0\t\tN/A
GPU1\tNV18\t X \tSYS\t0-47\t0\t\tN/A
NIC0\tPIX\tSYS\t X

Legend:

  X    = Self
"""
MIXED = """\
\tGPU0\tGPU1\tGPU2\tCPU Affinity
GPU0\t X \tNV4\tSYS\t0-15
GPU1\tNV4\t X \tPHB\t0-15
GPU2\tSYS\tPHB\t X \t0-15
"""


def test_links_are_read_from_the_matrix() -> None:
    assert links_in(NVLINK) == {(0, 1): "NV18"}
    assert links_in(MIXED) == {(0, 1): "NV4", (0, 2): "PCIe", (1, 2): "PCIe"}


def test_the_most_common_kind_of_link_comes_first() -> None:
    assert summary(links_in(NVLINK)) == "NV18"
    assert summary(links_in(MIXED)) == "PCIe, NV4"
    assert summary({}) == ""


@pytest.mark.parametrize("text", ["", "GPU0", "GPU0 X", "no devices were found", "GPU0 0 X\nGPU1"])
def test_any_other_text_names_no_links(text: str) -> None:
    assert links_in(text) == {}


def fake(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Be the only program on the path."""
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_the_driver_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, monkeypatch, f"echo '{NVLINK}'")
    assert Topology().links() == {(0, 1): "NV18"}


def test_doctor_says_how_many_gpus_reach_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = os.environ["PATH"]
    fake(tmp_path, monkeypatch, f"echo '{MIXED}'")
    monkeypatch.setenv("PATH", f"{tmp_path}:{path}")
    sandbox, links = doctor.sandbox_and_links()
    assert sandbox.name == "sandbox"
    assert (links.name, links.state, links.text) == ("links", "ok", "3 GPUs reach each other: PCIe, NV4")


def test_a_host_that_cannot_say_it_has_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, monkeypatch, "exit 9")
    assert Topology().links() == {}
    (tmp_path / "nvidia-smi").unlink()
    assert Topology().links() == {}
