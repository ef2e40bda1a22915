"""What submissions are written with, by the words in them."""

from __future__ import annotations

import pytest

from kernelcup.reporting.made_of import by_time, made_of
from kernelcup_harness.protocol import RanKernel


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("import torch\nimport triton\n", ("Triton",)),
        ("from triton import language as tl\n", ("Triton",)),
        ("import triton\nfrom triton.experimental import gluon\n", ("Gluon",)),
        ("import cutlass\nfrom cutlass import cute\n", ("CuTe DSL",)),
        ("import torch\nSOURCE = '''\n__global__ void f() {}\n'''\n", ("CUDA",)),
        ("#include <cutlass/gemm.h>\n__global__ void f() {}\n", ("CUTLASS", "CUDA")),
        ("#include <hip/hip_runtime.h>\n__global__ void f() {}\n", ("HIP",)),
        ('__global__ void f() { asm volatile("mov"); }\n', ("CUDA", "PTX")),
        ("import torch\nf = torch.compile(g)\n", ("torch.compile",)),
        ("import torch\n", ("PyTorch",)),
        ("x = 1\n", ()),
        ("# the word triton in a comment\nimport torch\n", ("PyTorch",)),
    ],
)
def test_names_come_from_imports_and_signs(code, names) -> None:
    assert made_of(code).names == names


def test_lines_are_counted_without_empty_ones_and_comments() -> None:
    assert made_of("import torch\n\n# why\nx = 1  # two\n").lines == 2
    assert made_of("// why\n#include <a.h>\nint x;\n\n").lines == 2
    assert made_of("").lines == 0


@pytest.mark.parametrize("part", ["asm ", " ", "\n", "\t\n", "import ", "#include ", "_"])
def test_very_long_text_is_read_at_once(part) -> None:
    """A quadratic pattern would take minutes for a million characters, and this test would not end."""
    assert made_of(part * (1_000_000 // len(part))).names == ()


def ran(name: str, share: float | None, origin: str | None = None) -> RanKernel:
    """A kernel that took a share of the time."""
    return RanKernel(
        name=name,
        image="00",
        launches=1,
        grid=[1],
        block=[1],
        registers=1,
        shared_bytes=0,
        local_bytes=0,
        share=share,
        origin=origin,
    )


def test_kernels_that_ran_say_what_it_is_made_of_and_the_text_where_they_do_not() -> None:
    text = made_of("import triton\n")
    mine, theirs, tiny = ran("_Z3foo", 0.7, ""), ran("gemm", 0.297, "cuBLAS"), ran("fill", 0.003, "ATen")
    assert by_time(text, [theirs, mine, tiny]).names == ("own kernels 70%", "cuBLAS 30%")
    assert by_time(text, [mine, ran("gemm", 0.3)]) == text
    assert by_time(text, [ran("_Z3foo", None, "")]) == text
