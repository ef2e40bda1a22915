"""What CUDA C++ is linked with that calls the driver: its library, or a stand-in on a machine without a GPU."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kernelcup.launchers.local.compiling import ARCHITECTURES, architectures_of
from kernelcup_harness.isolation.job_environment import CUDA_FOLDER
from kernelcup_harness.submission.cuda import compiling, driver_library, inspection, libraries
from kernelcup_harness.submission.cuda.libraries import find_nvcc
from tma_boards import REFERENCES, reference, submission

needs_nvcc = pytest.mark.skipif(find_nvcc(os.environ) is None, reason="needs nvcc")
needs_header = pytest.mark.skipif(
    shutil.which("g++") is None
    or not any((each / "cuda.h").is_file() for each in libraries.include_folders(os.environ)),
    reason="needs g++ and cuda.h",
)
SEVEN_LINES = """\
#include <cuda.h>
int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    CUtensorMap map; cuuint64_t size[] = {64}, stride[] = {0}; cuuint32_t box[] = {64}, step[] = {1};
    return cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 1, inputs->tensors[0].data, size, stride, box,
        step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a build of a machine without a driver, in an empty working folder."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(driver_library, "find", lambda _environ: None)
    return {**os.environ, CUDA_FOLDER: str(tmp_path / "made"), "KERNELCUP_BACKEND": "cuda"}


@needs_header
@pytest.mark.parametrize(
    ("function", "missing"), [("cuTensorMapEncodeTiled", ""), ("cuNoSuchFunction", "cuNoSuchFunction")]
)
def test_the_stand_in_has_the_drivers_functions_and_no_other(
    here: dict[str, str], function: str, missing: str
) -> None:
    library = driver_library.to_link(Path(), here)
    program = f"int {function}(void);\nint main(void) {{ return {function}(); }}\n"
    command = ["g++", "-x", "c", "-", "-x", "none", str(library.absolute()), "-o", "program"]
    done = subprocess.run(command, input=program, capture_output=True, text=True, check=False)

    assert (done.returncode == 0) is (not missing)
    assert missing in done.stderr


@pytest.mark.jobs
@needs_nvcc
@pytest.mark.parametrize("architecture", ["sm_75", "sm_100a"])
def test_a_file_that_makes_a_tensor_map_compiles_without_a_driver(
    here: dict[str, str], architecture: str
) -> None:
    Path("submission.cu").write_text(SEVEN_LINES)
    found = inspection.inspected(Path("submission.cu"), [architecture], frozenset(), here)

    assert (found.error, found.trouble) == ("", "")
    assert [each.architecture for each in found.targets] == [architecture]
    # The stand-in is for the linker: it is not kept beside what it was made for.
    assert not list(Path(here[CUDA_FOLDER]).glob("libcuda*"))


@pytest.mark.jobs
@needs_nvcc
@pytest.mark.parametrize("board", list(REFERENCES))
def test_the_kernels_of_the_gpu_tests_compile(here: dict[str, str], board: str) -> None:
    for name, text, sides in (
        (REFERENCES[board], reference(board, "by_tma"), "KC_LEADERBOARD"),
        ("submission.cu", submission(board, "by_tma"), "KC_SUBMISSION"),
    ):
        Path(name).write_text(text)
        environ = {**here, compiling.options.LEADERBOARD: sides}
        found = inspection.inspected(Path(name), ["sm_90a"], frozenset(), environ)
        assert (found.error, found.trouble) == ("", ""), name
        assert {each.name.partition("(")[0] for each in found.targets[0].kernels} >= {
            {"double": "double_tiles", "product": "multiply_tiles"}[board]
        }


def test_the_functions_are_those_of_the_header() -> None:
    header = (
        "#define cuMemAlloc cuMemAlloc_v2\n#define cuLaunchKernel __CUDA_API_PTSZ(cuLaunchKernel)\n"
        "typedef struct CUctx_st *CUcontext;\nCUresult CUDAAPI cuInit(unsigned int Flags);\n"
    )
    assert driver_library.functions(header) == [
        *("cuInit", "cuLaunchKernel", "cuLaunchKernel_ptsz", "cuMemAlloc", "cuMemAlloc_v2")
    ]


def test_the_library_of_the_machine_goes_first_and_is_in_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "driver").mkdir()
    (tmp_path / "driver" / driver_library.NAME).touch()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(driver_library, "FOLDERS", ())
    without, beside = {"PATH": ""}, {"PATH": "", "LD_LIBRARY_PATH": f"/nowhere:{tmp_path}/driver"}

    assert driver_library.kind(without) == "stub"
    assert driver_library.to_link(tmp_path, beside) == tmp_path / "driver" / driver_library.NAME
    assert compiling.key(Path("a.cu"), without) != compiling.key(Path("a.cu"), beside)


def test_only_what_may_call_the_driver_is_linked_with_it(tmp_path: Path) -> None:
    plain, calling = tmp_path / "a.cu", tmp_path / "b.cu"
    plain.write_text("cudaMemcpyAsync(a, b, 1, kind, stream); cublasCreate(&handle);")
    calling.write_text("cuTensorMapEncodeTiled (&map);")

    assert not driver_library.is_called([plain], {})
    assert driver_library.is_called([plain, calling], {})
    assert driver_library.is_called([plain], {libraries.VARIABLE: "thunderkittens"})


@pytest.mark.parametrize(
    ("devices", "architectures"),
    [
        (["T4"], ("sm_75",)),
        (["A100", "L4", "H100", "H200", "B200"], ("sm_80", "sm_89", "sm_90a", "sm_100a")),
        (["H100x8", "l4-emulated"], ("sm_90a", "sm_89")),
        (["cpu"], ARCHITECTURES),
        ([], ARCHITECTURES),
    ],
)
def test_what_is_compiled_for_follows_from_the_devices(
    devices: list[str], architectures: tuple[str, ...]
) -> None:
    assert architectures_of(devices) == architectures
