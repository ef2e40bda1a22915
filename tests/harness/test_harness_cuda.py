"""The C interface: what is compiled how, which structures a call gets, and what comes of its answer."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelcup_harness.core.answer import Form
from kernelcup_harness.isolation.job_environment import CUDA_FOLDER
from kernelcup_harness.protocol.variables import CHECKED
from kernelcup_harness.submission import languages
from kernelcup_harness.submission.cuda import compiling
from kernelcup_harness.submission.cuda.arguments import DTYPES, NUMBERS, Arguments, name_of
from kernelcup_harness.submission.cuda.libraries import find_nvcc
from kernelcup_harness.submission.cuda.library import CompiledKernel
from kernelcup_harness.submission.port import FunctionFailed, NotCompiled, expect

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
Make = Callable[[str], CompiledKernel]
FUNCTION = "int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context)"
Pair = namedtuple("Pair", "left right")


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Return what compiles the body of a function and loads it."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv(CUDA_FOLDER, str(tmp_path / "made"))
    monkeypatch.setenv("KERNELCUP_BACKEND", "cpu")

    def made(body: str) -> CompiledKernel:
        (work / "submission.cpp").write_text(f"{FUNCTION} {{ {body} }}\n")
        found = languages.of("submission.cpp").load(Path("submission.cpp"))
        assert isinstance(found, CompiledKernel)
        return found

    return made


def told(library: CompiledKernel, answer: Any, *, in_place: bool = False) -> CompiledKernel:
    """Tell it the form of its answers."""
    expect(library, Form.of(answer, in_place=in_place).described)
    return library


def environment(**more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], CUDA_FOLDER: "/made", **more}


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("submission.py", "Python"),
        ("a/b.CU", "CUDA C++"),
        ("x.cpp", "CUDA C++"),
        ("x.cuh", "CUDA C++"),
        ("x", "Python"),
    ],
)
def test_the_entry_tells_the_language(name: str, language: str) -> None:
    assert languages.of(name).name == language


@pytest.mark.parametrize(
    ("architectures", "wanted"),
    [
        ("9.0+PTX", "sm_90a"),
        ("10.0;9.0", "sm_100a"),
        ("8.9+PTX", "sm_89"),
        ("12.0", "sm_120a"),
        ("", "sm_90a"),
    ],
)
def test_it_is_compiled_for_the_device(architectures: str, wanted: str) -> None:
    assert compiling.architecture({"TORCH_CUDA_ARCH_LIST": architectures}) == wanted


def test_all_types_of_elements_have_the_numbers_of_the_header() -> None:
    header = Path(compiling.__file__).with_name("kernelcup.h").read_text()
    lines = header.split("kc_dtype {")[1].split("}")[0].splitlines()
    words = [line.strip().split(",")[0].split(" ")[0] for line in lines]

    assert [word.removeprefix("KC_").lower() for word in words if word] == list(DTYPES)
    assert NUMBERS[torch.bool] == 1
    assert NUMBERS[torch.float8_e4m3fn] == 16


def test_places_have_names() -> None:
    data = {"weights": {"w1": torch.zeros(2, 3)}, "pair": Pair(1, (torch.zeros(1), None)), "on": True}
    found = Arguments(data, gpu=False)

    assert [each.name for each in found.tensors] == [b"weights.w1", b"pair.right.0"]
    assert [(each.name, each.kind) for each in found.scalars] == [
        (b"pair.left", 2),
        (b"pair.right.1", 0),
        (b"on", 1),
    ]
    assert list(found.tensors[0].shape[:2]) == [2, 3]
    assert list(found.tensors[0].strides[:2]) == [3, 1]
    assert found.tensors[0].device == -1
    assert name_of("") == b""


@pytest.mark.parametrize("value", [1 << 63, 1j, torch.zeros([1] * 17), "a\0b"])
def test_a_value_that_c_has_no_word_for_is_refused(value: Any) -> None:
    with pytest.raises(FunctionFailed, match="cannot be passed to C"):
        Arguments((value,), gpu=False)


@needs_compiler
def test_an_answer_has_the_form_of_the_reference_s(make: Make) -> None:
    library = told(
        make(
            "const float *a = (const float *)inputs->tensors[0].data;"
            'float *c = (float *)kc_find_tensor(outputs, "sum")->data;'
            "for (int i = 0; i < 3; i++) c[i] = a[i] + inputs->scalars[0].real;"
            'kc_find_scalar(outputs, "count")->integer = 3; outputs->scalars[1].integer = 1; return 0;'
        ),
        {"sum": torch.zeros(3), "count": 7, "all": False},
    )

    found = library((torch.arange(3.0), 0.5))

    assert found["sum"].tolist() == [0.5, 1.5, 2.5]
    assert (found["count"], found["all"]) == (3, True)


@needs_compiler
def test_the_form_tells_no_values(make: Make) -> None:
    described = Form.of((torch.tensor([4.0, 5.0]), 42, "secret", 3.5, True), in_place=False).described

    assert "42" not in str(described)
    assert "secret" not in str(described)
    assert "3.5" not in str(described)
    library = make("return (int)outputs->scalars[0].integer;")
    expect(library, described)
    assert library(())[1:] == (0, "", 0.0, False)


@needs_compiler
def test_a_call_in_place_has_no_outputs(make: Make) -> None:
    data = torch.ones(2)
    library = told(
        make("((float *)inputs->tensors[0].data)[1] = 5; return outputs->tensor_count;"), data, in_place=True
    )

    assert library(data) is None
    assert data.tolist() == [1, 5]


@needs_compiler
def test_scratch_lives_as_long_as_the_call(make: Make) -> None:
    library = told(
        make(
            "char *a = (char *)kc_scratch(context, 1 << 20), *b = (char *)kc_scratch(context, 1 << 20);"
            'if (!a || !b || (a < b + (1 << 20) && b < a + (1 << 20))) return kc_fail(context, "they overlap");'
            "memset(a, 1, 1 << 20); memset(b, 2, 1 << 20);"
            "((float *)outputs->tensors[0].data)[0] = a[5] + b[7]; return 0;"
        ),
        torch.zeros(1),
    )

    assert library(()).item() == 3
    assert library._scratch == []


@needs_compiler
@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("return -3;", "custom_kernel returned -3"),
        ('return kc_fail(context, "%d of %s", 2, "it");', "custom_kernel: 2 of it"),
        ('kc_fail(context, "the first"); return kc_fail(context, "the second");', "custom_kernel: the first"),
        ("throw 3;", "no std::exception"),
        ("kc_tensor_at(outputs, 4, context); return 0;", "there is no tensor 4: there are 1"),
        ("kc::view_of<float, 3>(outputs, 0, context); return 0;", "has 1 dimensions; the view has 3"),
        ("kc::view_of<int, 1>(outputs, 0, context); return 0;", "has dtype 12 of kc_dtype; the view has 6"),
    ],
)
def test_a_failure_has_its_text(make: Make, body: str, text: str) -> None:
    library = told(make(body), torch.zeros(1))

    with pytest.raises(FunctionFailed, match=text):
        library(())


@needs_compiler
def test_memory_that_is_not_there_is_torch_s_own_error(make: Make) -> None:
    library = told(make("return kc_scratch(context, (size_t)1 << 60) == NULL;"), torch.zeros(1))

    with pytest.raises(RuntimeError, match="can't allocate memory"):
        library(())


@needs_compiler
def test_without_a_reference_the_form_is_not_known(make: Make) -> None:
    library = make("return 0;")
    expect(library, None)

    with pytest.raises(FunctionFailed, match="has no ref_kernel"):
        library(())


@needs_compiler
def test_a_text_that_did_not_compile_is_not_compiled_again(make: Make, tmp_path: Path) -> None:
    with pytest.raises(NotCompiled, match=r"submission\.cpp:1:\d+: error: .nonsense") as first:
        make("return nonsense;")
    (failure,) = (tmp_path / "made").glob("*.txt")
    failure.write_text("as before")
    with pytest.raises(NotCompiled, match="as before"):
        make("return nonsense;")
    assert str(tmp_path) not in str(first.value)


def test_views_are_checked_in_tests_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    entry, files = Path("submission.cpp"), (tmp_path / "made.so", tmp_path / "kernelcup.h")
    test, ranked = (compiling.command(entry, *files, environment(**more)) for more in ({CHECKED: "1"}, {}))

    assert [word for word in test if word not in ranked] == ["-DKC_CHECKED=1"]
    assert compiling.key(entry, environment(**{CHECKED: "1"})) != compiling.key(entry, environment())


def test_a_machine_without_a_compiler_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "find_nvcc", lambda _environ: None)
    nothing = {"PATH": "/nowhere"}

    assert "needs nvcc" in compiling.trouble(Path("a.cu"), nothing)
    assert "needs nvcc" in compiling.trouble(Path("a.cpp"), {**nothing, "KERNELCUP_BACKEND": "cuda"})
    assert "needs g++" in compiling.trouble(Path("a.cpp"), nothing)
    assert languages.of("a.py").trouble(Path("a.py"), nothing) == ""


@pytest.mark.jobs
@pytest.mark.skipif(find_nvcc(os.environ) is None, reason="needs nvcc")
@pytest.mark.usefixtures("make")
def test_a_kernel_compiles_and_fails_without_a_gpu() -> None:
    Path("kernel.cu").write_text(
        f"__global__ void nothing() {{}}\n{FUNCTION} {{ nothing<<<1, 1, 0, kc::stream(context)>>>(); return 0; }}\n"
    )
    library = languages.of("kernel.cu").load(Path("kernel.cu"))
    expect(library, Form.of(torch.zeros(1), in_place=False).described)

    with pytest.raises(FunctionFailed, match=r"CUDA: .*\(cudaError\w+\)"):
        library(())


@pytest.mark.jobs
@pytest.mark.skipif(find_nvcc(os.environ) is None, reason="needs nvcc")
def test_a_library_of_the_task_is_linked_and_not_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site/nvidia/cu13"
    for folder in ("include", "lib"):
        (package / folder).mkdir(parents=True)
    (package / "include/cublas_v2.h").write_text('extern "C" int answer_of_library();\n')
    made = ["g++", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(package / "lib/libcublas.so.13")]
    subprocess.run(made, input=b'extern "C" int answer_of_library() { return 42; }', check=True)
    monkeypatch.setattr("site.getsitepackages", lambda: [str(tmp_path / "site")])
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    body = 'return kc_fail(context, answer_of_library() == 42 ? "it was linked" : "?");'
    entry = Path("kernel.cu")
    entry.write_text(f"#include <cublas_v2.h>\n{FUNCTION} {{ {body} }}\n")
    monkeypatch.setenv("KERNELCUP_BACKEND", "cuda")
    monkeypatch.setenv("KERNELCUP_LIBRARIES", "cublas")
    monkeypatch.setenv(CUDA_FOLDER, str(tmp_path / "made"))

    found = languages.of("kernel.cu").load(entry)

    with pytest.raises(FunctionFailed, match="it was linked"):
        told(found, torch.zeros(1))((torch.zeros(1),))
