"""The machine code of what was timed, in words: by the real assembler and disassembler, without a GPU."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
from base64 import b64decode, b64encode
from pathlib import Path

import pytest

from kernelcup_harness.isolation import sandbox
from kernelcup_harness.protocol import KeptFile, RanKernel
from kernelcup_harness.run import listing
from kernelcup_harness.submission.cuda import inspection
from kernelcup_harness.window.graph_data import Capture, Function, Graph, Image, encode
from kernelcup_harness.wire.job_messages import Binary

PTX = """.version 8.0
.target sm_90
.address_size 64
.visible .entry mine(.param .u64 there)
{
  .reg .u64 %a;
  ld.param.u64 %a, [there];
  st.global.u64 [%a], 42;
  ret;
}
"""


@pytest.fixture(scope="module")
def cubin(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    disassembler = inspection.disassembler()
    assembler = Path(disassembler or "").with_name("ptxas")
    if not assembler.exists():
        pytest.skip("no ptxas here")
    folder = tmp_path_factory.mktemp("ptx")
    (folder / "mine.ptx").write_text(PTX)
    subprocess.run(
        [assembler, "-arch", "sm_90", "-o", folder / "mine.cubin", folder / "mine.ptx"], check=True
    )
    return (folder / "mine.cubin").read_bytes()


def kernel(code: bytes, origin: str | None = None) -> RanKernel:
    return RanKernel(
        name="mine",
        image=hashlib.sha256(code).hexdigest()[:16],
        launches=1,
        grid=[1],
        block=[1],
        registers=8,
        shared_bytes=0,
        local_bytes=0,
        origin=origin,
    )


def said(binary: bytes, memory: bytes = b"") -> Binary:
    """What the judge says of what the timer has replayed."""
    files = [b64encode(gzip.compress(each)).decode() if each else "" for each in (binary, memory)]
    return Binary(gz64=files[0], memory_gz64=files[1])


def text_of(file: KeptFile) -> str:
    return gzip.decompress(b64decode(file.gz64)).decode()


def test_own_kernels_are_disassembled_and_those_of_libraries_are_not(cubin: bytes, tmp_path: Path) -> None:
    images = (Image(cubin, ()), Image(b"a library's", ()))
    binary = encode(Capture(images, (Function("mine", 0, {}),), (Graph((), ()),)))
    ran = [kernel(cubin), kernel(b"a library's", "cuBLAS")]
    found = {
        each.name: each
        for each in listing.files(said(binary, b"its memory"), ran, tmp_path / "a", boxed=sandbox.is_there())
    }
    assert set(found) == {"binary.kcgraph", "binary.memory", "sass.txt"}
    assert found["binary.kcgraph"].sha256 == hashlib.sha256(binary).hexdigest()
    text = text_of(found["sass.txt"])
    assert text.startswith(f"// machine code {ran[0].image}, of mine\n")
    assert "STG.E.64" in text


def test_a_binary_that_cannot_be_read_is_kept_without_a_listing(tmp_path: Path) -> None:
    found = listing.files(said(b"forged"), [kernel(b"x")], tmp_path / "a", boxed=False)
    assert [each.name for each in found] == ["binary.kcgraph"]
