"""Where the time of a first `load_inline` goes, and what shortens it.

    python3 benchmarks/build_times.py OUT

Needs torch and nvcc, and for the last rows a GPU. Each row is a process of its own with an empty build folder. It
prints a table, and leaves `build-times.json` and the time traces of nvcc in OUT.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1] / "src"))

KERNEL = """
__global__ void add(float* o, const float* a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) o[i] = a[i] + SALT;
}
"""
TORCH_CALL = """
torch::Tensor run(torch::Tensor a) {
  auto o = torch::empty_like(a);
  add<<<(a.numel() + 255) / 256, 256>>>(o.data_ptr<float>(), a.data_ptr<float>(), a.numel());
  return o;
}
"""
GUARDED_CALL = """
torch::Tensor run(torch::Tensor a) {
  TORCH_CHECK(a.is_cuda() && a.scalar_type() == torch::kFloat32, "float32 on the device");
  const at::cuda::OptionalCUDAGuard guard(device_of(a));
  auto o = torch::empty({a.size(0)}, a.options());
  AT_DISPATCH_FLOATING_TYPES(a.scalar_type(), "run", [&] {
    add<<<(a.numel() + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        o.data_ptr<float>(), a.contiguous().data_ptr<float>(), a.numel());
  });
  return o;
}
"""
GUARDS = "#include <ATen/cuda/CUDAContext.h>\n#include <c10/cuda/CUDAGuard.h>\n"
PLAIN_CALL = """
extern "C" void launch(float* o, const float* a, long n) { add<<<(n + 255) / 256, 256>>>(o, a, n); }
"""
WRAP = """
extern "C" void launch(float* o, const float* a, long n);
at::Tensor run(at::Tensor a) {
  auto o = at::empty_like(a);
  launch(o.data_ptr<float>(), a.data_ptr<float>(), a.numel());
  return o;
}
"""
PYBIND = "#include <torch/csrc/utils/pybind.h>\n#include <torch/csrc/Exceptions.h>\n"
EMPTY_LIKE = "#include <ATen/core/Tensor.h>\n#include <ATen/ops/empty_like.h>\n"

# name -> (cpp, cuda, further arguments of load_inline, whether our compilers are used)
ROWS = {
    "default": ("torch::Tensor run(torch::Tensor a);", KERNEL + TORCH_CALL, {}, False),
    "no_implicit_headers by hand": (
        PYBIND + EMPTY_LIKE + WRAP,
        "#include <cuda_runtime.h>\n" + KERNEL + PLAIN_CALL,
        {"no_implicit_headers": True},
        False,
    ),
    "our compilers": ("torch::Tensor run(torch::Tensor a);", KERNEL + TORCH_CALL, {}, True),
    "our compilers, torch/extension.h in cuda": (
        "torch::Tensor run(torch::Tensor a);",
        "#include <torch/extension.h>\n" + KERNEL + TORCH_CALL,
        {},
        True,
    ),
    "our compilers, guards and streams": (
        "torch::Tensor run(torch::Tensor a);",
        GUARDS + KERNEL + GUARDED_CALL,
        {},
        True,
    ),
    "our compilers, falls back": (
        "torch::Tensor run(torch::Tensor a);",
        KERNEL + TORCH_CALL.replace("return o;", "return torch::relu(o);"),
        {},
        True,
    ),
    "our compilers, by hand": (
        PYBIND + EMPTY_LIKE + WRAP,
        "#include <cuda_runtime.h>\n" + KERNEL + PLAIN_CALL,
        {"no_implicit_headers": True},
        True,
    ),
}


def child(row: str, salt: str) -> None:
    """Build one row, print what each part took as JSON."""
    began = time.perf_counter()
    import torch

    imported = time.perf_counter()
    from torch.utils.cpp_extension import load_inline

    extension = time.perf_counter()
    cpp, cuda, further, _ = ROWS[row]
    module = load_inline("probe", cpp, cuda.replace("SALT", salt), functions=["run"], **further)
    built = time.perf_counter()
    right = None
    if torch.cuda.is_available():
        given = torch.zeros(1000, device="cuda")
        right = bool((module.run(given) == float(salt.rstrip("f"))).all())
    print(
        json.dumps(
            {
                "import_torch": imported - began,
                "import_cpp_extension": extension - imported,
                "load_inline": built - extension,
                "all": built - began,
                "right": right,
            }
        )
    )


def ninja_log(folder: Path) -> dict[str, tuple[float, float]]:
    """Return start and end in seconds of each of ninja's outputs."""
    found = {}
    for line in (folder / "probe" / ".ninja_log").read_text().splitlines()[1:]:
        start, end, _, name, *_ = line.split("\t")
        found[name] = (int(start) / 1000, int(end) / 1000)
    return found


def nvcc_phases(file: Path) -> dict[str, float]:
    """Return the seconds of each phase of nvcc."""
    if not file.exists():
        return {}
    with file.open() as lines:
        return {row[1].strip(): float(row[6]) / 1000 for row in list(csv.reader(lines))[1:] if len(row) > 6}


def one(row: str, salt: str, out: Path) -> dict[str, object]:
    """Run one row in a process of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        environment = {**os.environ, "TORCH_EXTENSIONS_DIR": str(folder / "ext")}
        trace = out / f"nvcc-{len(list(out.glob('nvcc-*')))}.csv"
        if ROWS[row][3]:
            from kernelcup_harness.build import compilers

            environment |= compilers.install(folder, os.environ)
        else:
            environment["NVCC_APPEND_FLAGS"] = f"--time={trace}"
        done = subprocess.run(
            [sys.executable, str(HERE), "--child", row, salt],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            return {"row": row, "failed": (done.stdout + done.stderr)[-3000:]}
        taken = json.loads(done.stdout.splitlines()[-1])
        headers = (folder / "ext/probe/.ninja_deps").read_bytes()
        return {
            "row": row,
            **taken,
            "ninja": ninja_log(folder / "ext"),
            "nvcc": nvcc_phases(trace),
            "light": b"/headers/torch/extension.h" in headers,
            "fell_back": b"generated/variable_factories.h" in headers,
        }


def timed(argv: list[str], **more) -> dict[str, object]:
    """Run a command. Return its seconds, and its last words if it failed."""
    began = time.perf_counter()
    done = subprocess.run(argv, capture_output=True, text=True, check=False, **more)
    result = {"seconds": time.perf_counter() - began}
    return result | ({"failed": done.stderr[-1500:]} if done.returncode else {})


def compilers_alone(folder: Path) -> dict[str, object]:
    """Time single compilations: the plain C interface, single headers, precompiled headers."""
    import torch
    from torch.utils import cpp_extension

    nvcc = str(Path(cpp_extension.CUDA_HOME or "/usr/local/cuda", "bin/nvcc"))
    major, minor = torch.cuda.get_device_capability() if torch.cuda.is_available() else (9, 0)
    code = f"{major}{minor}" + ("a" if major >= 9 else "")
    import sysconfig

    include = [
        f"-isystem{path}" for path in [*cpp_extension.include_paths("cuda"), sysconfig.get_paths()["include"]]
    ]
    gxx = ["g++", "-std=c++20", "-fPIC", *include]
    found: dict[str, object] = {}
    (folder / "plain.cu").write_text(KERNEL.replace("SALT", "1.f") + PLAIN_CALL)
    for label, target in (
        ("-arch", [f"-arch=sm_{code}"]),
        ("-gencode", [f"-gencode=arch=compute_{code},code=sm_{code}"]),
    ):
        for attempt in ("first", "second"):
            found[f"plain C interface, nvcc {label}, {attempt}"] = timed(
                [nvcc, *target, "-O3", "-shared", "-Xcompiler", "-fPIC", "plain.cu", "-o", "plain.so"],
                cwd=folder,
            )
    for header in (
        "torch/extension.h",
        "torch/types.h",
        "ATen/ATen.h",
        "ATen/core/Tensor.h",
        "ATen/ops/empty_like.h",
        "torch/csrc/utils/pybind.h",
        "pybind11/pybind11.h",
    ):
        (folder / "header.cpp").write_text(f"#include <{header}>\n")
        found[f"g++ -O0 -c <{header}>"] = timed([*gxx, "-c", "header.cpp", "-o", "header.o"], cwd=folder)
    (folder / "all.h").write_text("#include <torch/extension.h>\n")
    found["g++ makes a precompiled torch/extension.h"] = timed(
        [*gxx, "-x", "c++-header", "all.h", "-o", "all.h.gch"], cwd=folder
    )
    if (folder / "all.h.gch").exists():
        found["bytes of the precompiled header"] = (folder / "all.h.gch").stat().st_size
    (folder / "uses.cpp").write_text(
        '#include "all.h"\nat::Tensor run(at::Tensor a);\n'
        'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }\n'
    )
    for attempt in ("first", "second"):
        found[f"g++ with the precompiled header, {attempt}"] = timed(
            [*gxx, "-Winvalid-pch", "-DTORCH_EXTENSION_NAME=probe", "-c", "uses.cpp", "-o", "uses.o"],
            cwd=folder,
        )
    return found


def nvrtc() -> dict[str, object]:
    """Time `torch.cuda._compile_kernel`, first and second, without torch's import."""
    import torch

    if not torch.cuda.is_available():
        return {}
    torch.zeros(1, device="cuda")
    found = {}
    for attempt, salt in (("first", 1), ("second", 2)):
        began = time.perf_counter()
        kernel = torch.cuda._compile_kernel(
            KERNEL.replace("__global__", 'extern "C" __global__').replace("SALT", f"{salt}.f"), "add"
        )
        found[f"torch.cuda._compile_kernel, {attempt}"] = time.perf_counter() - began
        o, a = torch.empty(1000, device="cuda"), torch.zeros(1000, device="cuda")
        kernel((4,), (256,), (o, a, 1000))
        found[f"right, {attempt}"] = bool((o == salt).all())
    return found


def main(out: Path) -> None:
    """Run all rows, print and store them."""
    out.mkdir(parents=True, exist_ok=True)
    result: dict[str, object] = {"cores": os.cpu_count(), "rows": []}
    for tool in ("nvcc", "g++", "ninja"):
        try:
            text = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False).stdout
            result[tool] = text.strip().splitlines()[-2:]
        except OSError as error:
            result[tool] = str(error)

    def store() -> None:
        (out / "build-times.json").write_text(json.dumps(result, indent=1))

    # The first import of torch on a fresh machine reads it from disk.
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    for index, row in enumerate([*ROWS, "our compilers"]):
        found = one(row, f"{index + 2}.f", out)
        result["rows"].append(found)
        print(json.dumps(found), flush=True)
        store()
    for name, part in (("nvrtc", lambda _folder: nvrtc()), ("alone", compilers_alone)):
        with tempfile.TemporaryDirectory() as scratch:
            try:
                result[name] = part(Path(scratch))
            except Exception as error:  # the other figures stand without these
                result[name] = repr(error)
        print(json.dumps(result[name], indent=1), flush=True)
        store()


if __name__ == "__main__":
    if sys.argv[1] == "--child":
        child(*sys.argv[2:])
    else:
        main(Path(sys.argv[1]))
