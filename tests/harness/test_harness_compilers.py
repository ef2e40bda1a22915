"""The compilers in place of torch's: which headers they give, which commands of nvcc they run side by side."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kernelcup_harness.build import compilers

TORCH_TYPES = """#pragma once
#include <ATen/ATen.h>
#include <torch/csrc/autograd/generated/variable_factories.h>
#include <torch/library.h>
namespace torch { using namespace at; }
"""
GUARD = """#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
inline std::optional<Device> device_of(const Tensor& t) {
  return t.device();
}

inline std::optional<Device> device_of(ITensorListRef t) {
  if (!t.empty()) {
    return device_of(t.front());
  }
}

int last;
"""
BODY = """#include <ATen/core/TensorBase.h>
#include <ATen/MethodOperators.h>
class Tensor : public TensorBase {
  // aten::rare(Tensor self) -> Tensor
  Tensor& operator+=(const Tensor& other) {
    return add_(other);
  }
  at::Tensor rare(int64_t dim=-1) const;
  at::Tensor rare(at::IntArrayRef dims={}) const;
  at::Tensor & add_(const at::Tensor & other) const;
  at::Tensor __dispatch_contiguous() const;
  at::Tensor zero_() const;
  at::Tensor view(at::IntArrayRef size) const;
  at::Tensor view_symint(c10::SymIntArrayRef size) const;
  at::Tensor remainder(const at::Tensor & other) const;
  int64_t other() const;
};
""" + "".join(
    f"inline at::Tensor Tensor::{name}({given}) const {{\n    return at::_ops::{name}::call(*this);\n}}\n"
    for name, given in (
        ("rare", "int64_t dim"),
        ("rare", "at::IntArrayRef dims"),
        ("add_", "const at::Tensor & other"),
        ("__dispatch_contiguous", ""),
        ("zero_", ""),
        ("view", "at::IntArrayRef size"),
        ("view_symint", "c10::SymIntArrayRef size"),
        ("remainder", "const at::Tensor & other"),
    )
)
LISTED = """#$ _SPACE_=
#$ CICC_PATH=/opt/nvvm/bin
#$ gcc -E -x c++ "a.cu" -o "/tmp/n/tmpxft_1-5_a.cpp4.ii"
#$ cudafe++ --gen_c_file_name "/tmp/n/tmpxft_1-6_a.cudafe1.cpp" --gen_module_id_file --module_id_file_name "{id}" "/tmp/n/tmpxft_1-5_a.cpp4.ii"
#$ gcc -D__CUDA_ARCH__=900 -E -x c++ "a.cu" -o "/tmp/n/tmpxft_1-7_a.cpp1.ii"
#$ "$CICC_PATH/cicc" --module_id_file_name "{id}" "/tmp/n/tmpxft_1-7_a.cpp1.ii" -o "/tmp/n/tmpxft_1-6_a.ptx"
#$ rm /tmp/n/tmpxft_1-3_a.fatbin
#$ gcc -c -x c++ "/tmp/n/tmpxft_1-6_a.cudafe1.cpp" -o "a.o"
"""  # noqa: E501


@pytest.fixture
def include(tmp_path: Path) -> Path:
    """A torch of two headers."""
    files = {
        "ATen/ATen.h": "#pragma once\n#include <ATen/Tensor.h>\n#include <ATen/Functions.h>\n",
        "ATen/DeviceGuard.h": GUARD,
        "ATen/MethodOperators.h": "".join(
            f"#include <ATen/ops/{name}_ops.h>\n"
            for name in ("add", "contiguous", "rare", "remainder", "view", "zero")
        ),
        "ATen/TensorOperators.h": "Tensor operator%(Tensor x, Tensor y) { return x.remainder(y); }",
        "ATen/core/TensorBase.h": "TensorBase contiguous() { return __dispatch_contiguous(); }\nvoid zero_();\n",
        "ATen/core/TensorBody.h": BODY,
        "torch/csrc/api/include/torch/types.h": TORCH_TYPES,
    }
    for name, text in files.items():
        path = tmp_path / "include" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "include"


def test_the_headers_are_the_installed_ones_without_the_heavy_parts(include: Path, tmp_path: Path) -> None:
    compilers.write_headers(include, tmp_path / "light")

    aten = (tmp_path / "light/ATen/ATen.h").read_text()
    types = (tmp_path / "light/torch/types.h").read_text()
    assert "<ATen/Tensor.h>" in aten
    assert "<ATen/ops/empty_like.h>" in aten
    assert "Functions.h" not in aten
    assert "<ATen/ATen.h>" in types
    assert "using namespace at" in types
    assert "variable_factories" not in types + aten
    guard = (tmp_path / "light/ATen/DeviceGuard.h").read_text()
    assert "const Tensor& t" in guard
    assert "int last;" in guard
    assert "List" not in guard


def test_a_method_is_left_out_with_all_of_its_name_unless_something_kept_calls_it(include: Path) -> None:
    text = compilers.with_fewer_methods(include)

    assert "rare" not in text.replace("aten::rare", "")
    # Called by the class, by its base, by an operator; in the base class too, under the same name; usual in kernels.
    for name in ("add_", "__dispatch_contiguous", "remainder", "zero_", "view"):
        assert f"{name}(" in text
        assert f"Tensor::{name}(" in text
    assert "view_symint" not in text
    assert "int64_t other() const;" in text
    headers = [line for line in text.splitlines() if line.startswith("#include <ATen/ops/")]
    kept = ("add", "contiguous", "remainder", "view", "zero")
    assert headers == [f"#include <ATen/ops/{name}_ops.h>" for name in kept]
    assert "MethodOperators" not in text


@pytest.mark.jobs
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_the_installed_headers_can_be_cut(tmp_path: Path) -> None:
    found = importlib.util.find_spec("torch")
    assert found is not None
    include = Path(str(found.origin)).parent / "include"
    compilers.write_headers(include, tmp_path / "light")
    source = tmp_path / "a.cpp"
    source.write_text(
        "#include <ATen/ATen.h>\nat::Tensor f(at::Tensor a) { return a.contiguous().view({-1}) % a.sum(0); }\n"
    )
    argv = ["g++", "-std=c++20", "-fsyntax-only", f"-I{tmp_path}/light", "-isystem", str(include)]

    done = subprocess.run([*argv, source], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr[-2000:]
    assert (
        len((tmp_path / "light" / compilers.BODY).read_text())
        < len((include / compilers.BODY).read_text()) / 2
    )


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
@pytest.mark.parametrize("linker", [compilers.QUICK_LINKER, "-fuse-ld=nowhere"])
def test_a_library_is_linked_with_the_usual_linker_where_the_quick_one_is_missing(
    linker: str, tmp_path: Path
) -> None:
    program = tmp_path / "wrapper.py"
    text = Path(compilers.__file__).read_text()
    program.write_text(text.replace(compilers.QUICK_LINKER, linker))
    (tmp_path / "a.c").write_text("int a;")
    subprocess.run(["g++", "-c", "-fPIC", "a.c"], cwd=tmp_path, check=True)
    argv = [sys.executable, "-I", "-S", str(program), "g++", str(tmp_path), "a.o", "-shared", "-o", "a.so"]

    subprocess.run(argv, cwd=tmp_path, check=True)

    assert (tmp_path / "a.so").read_bytes().startswith(b"\x7fELF")


def test_the_passes_of_nvcc_wait_for_each_other_only_where_they_share_a_file(tmp_path: Path) -> None:
    environment: dict[str, str] = {}
    identity = tmp_path / "tmpxft_1-4_a.module_id"

    steps = compilers.parse(LISTED.format(id=identity), environment)

    assert steps is not None
    assert environment == {"CICC_PATH": "/opt/nvvm/bin"}
    assert identity.read_text().startswith("_")
    host, device = steps[1], steps[3]
    assert "--gen_module_id_file" not in host.command
    assert not host.files & device.files
    assert [bool(steps[at].files & steps[at + 1].files) for at in (0, 2)] == [True, True]
    assert not any(step.command.startswith("rm ") for step in steps)


@pytest.mark.parametrize("listed", ["", "#$ gcc -c a.c\n", LISTED.replace("cudafe++ ", "other ")])
def test_a_dry_run_of_another_form_is_left_to_nvcc(listed: str, tmp_path: Path) -> None:
    assert compilers.parse(listed.replace("{id}", str(tmp_path / "id")), {}) is None


def test_a_step_that_fails_stops_what_needs_it(tmp_path: Path) -> None:
    shared = frozenset({"/tmp/shared"})
    ran = tmp_path / "ran"
    steps = [
        compilers.Step(command="exit 3", files=shared),
        compilers.Step(command=f"echo needs >> {ran}", files=shared),
        compilers.Step(command=f"echo alone >> {ran}", files=frozenset()),
        compilers.Step(command=f"echo last >> {ran}", files=frozenset()),
    ]
    assert compilers.run_all(steps, os.environ) == 1
    assert ran.read_text() == "alone\n"


@pytest.mark.parametrize(
    ("text", "light"),
    [
        ("int a;", True),
        ("auto x = torch::ones(3, requires_grad());", False),
        ("#include <torch/torch.h>", False),
    ],
)
def test_a_source_that_names_what_was_left_out_gets_the_installed_headers(
    text: str, light: bool, tmp_path: Path
) -> None:
    source = tmp_path / "a.cu"
    source.write_text(text)
    assert compilers.is_light(["-c", str(source), "-o", "a.o"]) is light
    assert not compilers.is_light([str(source), "-o", "a.so"])


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("#include <ATen/ATen.h>\nint a = FULL;", "installed"),
        ("#include <ATen/ATen.h>\nint a;", "light"),
        ("#include <ATen/ATen.h>\nint a = MISSING;", None),
    ],
)
def test_what_the_light_headers_do_not_compile_is_compiled_with_the_installed_ones(
    source: str, says: str | None, tmp_path: Path
) -> None:
    for name, text in (("headers", "int kind_light;"), ("installed", "#define FULL 1\nint kind_installed;")):
        (tmp_path / name / "ATen").mkdir(parents=True)
        (tmp_path / name / "ATen/ATen.h").write_text(text)
    (tmp_path / "a.cpp").write_text(source)
    argv = ["-isystem", "installed", "-c", "a.cpp", "-o", "a.o"]
    done = subprocess.run(
        [sys.executable, "-I", "-S", compilers.__file__, "g++", str(tmp_path), *argv],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    if says is None:
        assert done.returncode != 0
        # Once, and by the installed headers.
        assert done.stderr.count("error:") == 1
        return
    assert done.returncode == 0, done.stderr
    assert f"kind_{says}".encode() in (tmp_path / "a.o").read_bytes()


def test_a_later_process_finds_the_compilers_that_a_build_was_made_with(
    include: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "importlib.util.find_spec",
        lambda _name: type("Spec", (), {"origin": str(include.parent / "__init__.py")}),
    )
    environ = {"TORCH_EXTENSIONS_DIR": str(tmp_path / "built"), "CUDA_HOME": "/opt/cuda"}
    assert compilers.unpacked(environ) == {}

    made = compilers.install(compilers.folder_of(environ), environ)

    assert compilers.unpacked(environ) == made
    assert "/opt/cuda/bin/nvcc" in Path(made["PYTORCH_NVCC"]).read_text()
    assert os.access(made["CXX"], os.X_OK)
