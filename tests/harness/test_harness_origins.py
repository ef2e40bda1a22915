"""Whose machine code a kernel is, and the rule about own kernels."""

from __future__ import annotations

import hashlib
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from harness_runs import quick_spec

from kernelcup_harness.doubt import findings
from kernelcup_harness.isolation import environments, origins
from kernelcup_harness.protocol import Backend, CaseResult, Mode, RanKernel, Reason, StageName, Verdict
from kernelcup_harness.run.record import Record
from kernelcup_harness.wire.job_messages import MachineFacts, Ran
from kernelcup_harness.wire.messages import Message

TOOL = """#!{python}
import pathlib, sys
arch, library = sys.argv[4], pathlib.Path(sys.argv[5])
for number, line in enumerate(library.read_text().splitlines()):
    if line.startswith(arch + " "):
        pathlib.Path(f"{{library.name}}.{{number}}.{{arch}}.cubin").write_text(line.split()[1])
"""
"""A cuobjdump for libraries whose lines are an architecture and its image."""


def image(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, Path]:
    """A machine with two libraries, another file, and a tool."""
    folder = tmp_path / "site/nvidia/lib"
    folder.mkdir(parents=True)
    (folder / "libcublasLt.so.13").write_text("sm_90 gemm\nsm_90a wgmma\nsm_80 old\n")
    (folder / "libtorch_cuda.so").write_text("sm_90 softmax\n")
    (folder / "libother.so").write_text("sm_90 mine\n")
    tool = tmp_path / "cuobjdump"
    tool.write_text(TOOL.format(python=sys.executable))
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    return {"site": tmp_path / "site", "tool": tool, "environments": tmp_path / "environments"}


def learned(machine: dict[str, Path], **ran: str) -> origins.Origins:
    """Learn the libraries of a machine on which images were seen."""
    return origins.learn(
        str(machine["tool"]),
        origins.found_libraries([machine["site"], Path("/nowhere")]),
        origins.architectures_of(9, 0),
        {name: [image(text)] for name, text in ran.items()},
    )


def test_an_image_is_a_librarys_if_the_library_holds_it_for_this_device(machine: dict[str, Path]) -> None:
    found = learned(machine)
    known = [found.of(kernel(None, text)) for text in ("gemm", "wgmma", "softmax", "old", "mine")]
    assert known == ["cuBLAS", "cuBLAS", "ATen", "", ""]


@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("nvjet_sm90_hsh_256x128_64x4_1x2_h_bz_coopA_NNT", "cuBLAS"),
        ("_ZN7cutlass7Kernel2I41cutlass_80_simt_sgemm_64x64_8x5_nn_align1EEvNT_6ParamsE", "cuBLAS"),
        ("_ZN7cutlass13device_kernelIN4mine10GemmKernelEEEvNT_6ParamsE", ""),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7", "cuDNN"),
        ("_Z18regular_fft_factorILj512E3EPTIJLj8EEELj8ELj0EL9padding_t14E", "cuFFT"),
        ("my_nvjet_", ""),
    ],
)
def test_a_name_makes_a_kernel_a_librarys(machine: dict[str, Path], name: str, library: str) -> None:
    assert learned(machine).of(kernel(None, name=name)) == library


def test_no_name_makes_a_librarys_kernel_the_submissions_own(machine: dict[str, Path]) -> None:
    assert learned(machine).of(kernel(None, "softmax", name="my_own_kernel")) == "ATen"


def test_a_list_counts_once_it_has_recognised_what_ran(machine: dict[str, Path]) -> None:
    environ = {environments.VARIABLE: str(machine["environments"])}
    with pytest.raises(origins.NoOrigins, match="has no list"):
        origins.read(environ)
    origins.write(learned(machine, cuBLAS="gemm", ATen="something else"), environ)
    with pytest.raises(origins.NoOrigins, match="not recognised kernels of ATen"):
        origins.read(environ)
    origins.write(learned(machine, cuBLAS="gemm", ATen="softmax"), environ)
    assert origins.read(environ).of(kernel(None, "gemm")) == "cuBLAS"
    (machine["site"] / "nvidia/lib/libtorch_cuda.so").write_text("sm_90 another\n")
    with pytest.raises(origins.NoOrigins, match=r"libtorch_cuda\.so has changed"):
        origins.read(environ)


def kernel(share: float | None, code: str = "mine", name: str = "k") -> RanKernel:
    return RanKernel(
        name=name,
        image=image(code),
        launches=1,
        grid=[1],
        block=[1],
        registers=1,
        shared_bytes=0,
        local_bytes=0,
        share=share,
    )


def judged(found: origins.Origins | None, *ran: Message, **changes: Any) -> list[tuple[str, str]]:
    """The findings that hold a ranked run of two cases back whose kernels were told."""
    values: dict[str, Any] = {"mode": Mode.LEADERBOARD, "backend": Backend.CUDA, "own_share": 0.9}
    record = Record(quick_spec("", **(values | changes)), "", lambda _event: None)
    record.origins, record.no_origins = found, "" if found is not None else "this machine has no list"
    record.begin(StageName.RANKED, 1.0, 2)
    for index in range(2):
        record.case(CaseResult(index=index, parameters={}, verdict=Verdict.ACCEPTED))
    for each in ran:
        record.take(each)
    record.end(Verdict.ACCEPTED, Reason.NONE, "")
    return [(each.code, each.text) for each in record.report(secret=b"", duration_s=0.0).quarantine]


def cut(index: int, *kernels: RanKernel, hidden: bool = False, longer: float = 1.0, why: str = "") -> Ran:
    return Ran(case=index, hidden=hidden, kernels=list(kernels), longer=longer, why=why)


def test_a_result_ranks_whose_own_kernels_take_the_time_in_each_case(machine: dict[str, Path]) -> None:
    found = learned(machine)
    mostly = [kernel(0.95), kernel(0.05, "gemm")]
    assert judged(found, cut(0, *mostly), cut(1, *mostly)) == []
    assert judged(found, own_share=None) == []


def test_a_result_is_held_where_a_library_takes_the_time_in_one_case(machine: dict[str, Path]) -> None:
    ((code, text),) = judged(
        learned(machine), cut(0, kernel(1.0)), cut(1, kernel(0.4), kernel(0.6, "gemm"), hidden=True)
    )
    assert code == findings.BELOW
    assert "own kernels take 40% of the time in one case" in text
    assert text.endswith("The rest is cuBLAS")


def test_own_kernels_that_wait_beside_a_librarys_or_only_in_a_row_are_no_share(
    machine: dict[str, Path],
) -> None:
    # The call takes as long as the library's kernel does: ten times less than all in a row.
    waits = cut(0, kernel(0.9), kernel(0.1, "gemm"), longer=10.0), cut(1, kernel(1.0), longer=10.0)
    ((code, text),) = judged(learned(machine), *waits)
    assert code == findings.BELOW
    assert "own kernels take 0% of the time in one case" in text


def test_own_kernels_alone_are_the_whole_time_however_many_they_are(machine: dict[str, Path]) -> None:
    tenths = [kernel(0.1) for _ in range(10)]
    cuts = cut(0, *tenths), cut(1, *tenths, longer=3.0)
    assert judged(learned(machine), *cuts, own_share=1.0) == []


def test_a_result_is_held_with_the_reason_where_the_share_is_not_known(machine: dict[str, Path]) -> None:
    found, told = learned(machine), {"replayed": False, "text": "it waits for the device"}
    by_wall = MachineFacts(environment={"clean_room": told})
    reasons = [
        judged(found, by_wall),
        judged(None, cut(0, kernel(1.0)), cut(1, kernel(1.0))),
        judged(found, cut(0, kernel(1.0)), cut(1, why="its kernels take no time")),
        judged(found, cut(0, kernel(1.0)), cut(1, why="n = 4096 hangs", hidden=True)),
    ]
    assert {code for ((code, _),) in reasons} == {findings.UNKNOWN}
    texts = [text.rpartition("decided: ")[2] for ((_, text),) in reasons]
    assert texts == [
        "it waits for the device",
        "this machine has no list",
        "its kernels take no time",
        "its kernels were not timed one by one",
    ]
