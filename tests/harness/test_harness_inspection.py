"""CUDA C++ without a GPU: errors by line, resources, listings, Hopper and Blackwell."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernelcup_harness.isolation.job_environment import CUDA_FOLDER
from kernelcup_harness.submission.cuda import compiling, inspection
from kernelcup_harness.submission.cuda.libraries import find_nvcc

needs_nvcc = pytest.mark.skipif(find_nvcc(os.environ) is None, reason="no nvcc: `pip install '.[cuda]'`")
needs_disassembler = pytest.mark.skipif(inspection.disassembler() is None, reason="no nvdisasm")

PTXAS = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'add' for 'sm_90a'
ptxas info    : Function properties for add
    16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 12 registers, used 1 barriers, 16 bytes cumulative stack size, 384 bytes smem, 380 bytes cmem[0]
ptxas info    : Compiling entry function 'empty' for 'sm_90a'
ptxas info    : Function properties for empty
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 4 registers, used 0 barriers
"""
GOOD = """
__global__ void scale(float *out, const float *in, long long n) {
  __shared__ float tile[64];
  tile[threadIdx.x % 64] = in[blockIdx.x];
  __syncthreads();
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2 * tile[i % 64];
}
int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
  scale<<<1, 64, 0, (cudaStream_t)context->stream>>>(nullptr, nullptr, 0);
  return 0;
}
"""
BLACKWELL = """
#include <cuda_runtime.h>
__global__ void __cluster_dims__(2, 1, 1) grid(int *out) {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("tcgen05.fence::before_thread_sync;");
  out[blockIdx.x] = rank;
}
int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
  cudaLaunchAttribute attributes[3] = {};
  attributes[0].id = cudaLaunchAttributePreferredClusterDimension;
  attributes[0].val.preferredClusterDim = {4, 1, 1};
  attributes[1].id = cudaLaunchAttributeMemSyncDomain;
  attributes[1].val.memSyncDomain = cudaLaunchMemSyncDomainRemote;
  attributes[2].id = cudaLaunchAttributeClusterDimension;
  attributes[2].val.clusterDim = {2, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = 8, config.blockDim = 32, config.attrs = attributes, config.numAttrs = 3;
  return cudaLaunchKernelEx(&config, grid, (int *)nullptr) != cudaSuccess;
}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Work in a folder of its own; return the environment of a build."""
    monkeypatch.chdir(tmp_path)
    return {**os.environ, CUDA_FOLDER: str(tmp_path / "made"), "TORCH_CUDA_ARCH_LIST": "9.0"}


def inspected(
    source: str, environ: dict[str, str], *listings: str, targets: str = "sm_90a"
) -> inspection.Compiled:
    Path("submission.cu").write_text(source)
    return inspection.inspected(Path("submission.cu"), targets.split(","), frozenset(listings), environ)


def test_what_the_assembler_reports_is_read_kernel_by_kernel() -> None:
    first, second = inspection.resources(PTXAS)
    assert (first.name, first.registers, first.shared_bytes) == ("add", 12, 384)
    assert (first.stack_bytes, first.spill_store_bytes, first.spill_load_bytes) == (16, 4, 8)
    assert (second.name, second.registers, second.shared_bytes, second.spill_load_bytes) == ("empty", 4, 0, 0)


def test_errors_of_both_compilers_name_file_and_line() -> None:
    text = (
        'submission.cu(3): error: identifier "nope" is undefined\n'
        "kernels/a.cuh:7:12: error: 'x' was not declared in this scope\n"
        "submission.cu:9:10: fatal error: none.h: No such file or directory\n"
        "submission.cu(4): warning #177-D: unused\n"
    )
    found = [(each.file, each.line) for each in inspection.diagnostics(text)]
    assert found == [("submission.cu", 3), ("kernels/a.cuh", 7), ("submission.cu", 9)]


def test_one_target_makes_one_kind_of_code() -> None:
    assert compiling.for_target("sm_100a") == ["-gencode=arch=compute_100a,code=sm_100a"]


def test_without_a_compiler_it_says_what_brings_one(
    here: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "find_nvcc", lambda _environ: None)
    assert "pip install '.[cuda]'" in inspected(GOOD, here).trouble


@pytest.mark.jobs
@needs_nvcc
@needs_disassembler
def test_registers_and_listings_come_for_hopper_and_blackwell(here: dict[str, str]) -> None:
    found = inspected(GOOD, here, "sass", "ptx", targets="sm_90a,sm_100a")

    assert found.error == ""
    assert [each.architecture for each in found.targets] == ["sm_90a", "sm_100a"]
    for target in found.targets:
        (kernel,) = target.kernels
        assert "scale" in kernel.name
        assert kernel.registers > 0
        assert kernel.shared_bytes >= 256
        assert f".target {target.architecture}" in target.ptx
        assert "EXIT" in target.sass


@pytest.mark.jobs
@needs_nvcc
def test_what_only_blackwell_has_compiles_for_it_and_is_an_error_for_hopper(here: dict[str, str]) -> None:
    blackwell = {**here, "TORCH_CUDA_ARCH_LIST": "10.0"}
    assert inspected(BLACKWELL, blackwell, targets="sm_100a").error == ""

    found = inspected(BLACKWELL, blackwell, targets="sm_90a")
    assert found.error.startswith("for sm_90a: ")
    assert "tcgen05" in found.error


@needs_nvcc
def test_a_compile_error_names_the_line(here: dict[str, str]) -> None:
    found = inspected(GOOD.replace("2 * tile", "2 * nope"), here)

    assert [(each.file, each.line) for each in found.diagnostics] == [("submission.cu", 7)]
    assert "nope" in found.diagnostics[0].text
    assert not found.targets


@pytest.mark.jobs
@needs_nvcc
def test_a_function_that_is_missing_is_an_error_without_a_line(here: dict[str, str]) -> None:
    found = inspected(GOOD.replace("custom_kernel", "another_kernel"), here)
    assert "defines no function" in found.error
