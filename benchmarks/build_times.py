"""Where the time of a first `load_inline` goes, and what shortens it; builds of a CUDA leaderboard; NVRTC.

    python3 benchmarks/build_times.py OUT

Needs torch and nvcc, and for the values of kernels a GPU. Each row is a process of its own with an empty build folder;
rows "before" have our compilers without the shorter class of tensors, gcc's larger heap and the quick linker. It
prints a table at the end and leaves `build-times.json` in OUT. What would begin later than after two minutes is left
out, and said.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
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

DECLARED = "torch::Tensor run(torch::Tensor a);"
# name -> (cpp, cuda, further arguments of load_inline)
KINDS = {
    "plain": (DECLARED, KERNEL + TORCH_CALL, {}),
    "guards and streams": (DECLARED, GUARDS + KERNEL + GUARDED_CALL, {}),
    "by hand": (
        PYBIND + EMPTY_LIKE + WRAP,
        "#include <cuda_runtime.h>\n" + KERNEL + PLAIN_CALL,
        {"no_implicit_headers": True},
    ),
}
BEFORE, NOW = "ours, before", "ours, now"
# The first counts for less: the machine's files are not in memory yet.
ROWS = [
    ("plain", BEFORE),
    ("plain", NOW),
    ("plain", BEFORE),
    ("plain", NOW),
    ("guards and streams", BEFORE),
    ("guards and streams", NOW),
    ("by hand", BEFORE),
    ("by hand", NOW),
]
EXAMPLE = HERE.parents[1] / "src/kernelcup/tasks/examples/vectoradd_cuda"
LAST_START_S = 120.0


def child(kind: str, salt: str) -> None:
    """Build one row, print what each part took as JSON."""
    began = time.perf_counter()
    import torch

    imported = time.perf_counter()
    from torch.utils.cpp_extension import load_inline

    extension = time.perf_counter()
    cpp, cuda, further = KINDS[kind]
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


def as_before(folder: Path) -> None:
    """Take from our compilers what was added to them."""
    from kernelcup_harness.build import compilers

    (folder / compilers.HEADERS / compilers.BODY).unlink()
    program = folder / compilers.PROGRAM
    text = program.read_text()
    for name, value in (("UNCOLLECTED", "()"), ("QUICK_LINKER", '"-shared"')):
        text, count = re.subn(rf"^{name} = .*$", f"{name} = {value}", text, flags=re.MULTILINE)
        assert count == 1
    program.write_text(text)


def one(kind: str, whose: str, salt: str) -> dict[str, object]:
    """Run one row in a process of its own."""
    from kernelcup_harness.build import compilers

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        environment = {**os.environ, "TORCH_EXTENSIONS_DIR": str(folder / "ext")}
        environment |= compilers.install(folder, os.environ)
        if whose == BEFORE:
            as_before(folder)
        done = subprocess.run(
            [sys.executable, str(HERE), "--child", kind, salt],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        row = {"row": kind, "compilers": whose}
        if done.returncode:
            return {**row, "failed": (done.stdout + done.stderr)[-3000:]}
        headers = (folder / "ext/probe/.ninja_deps").read_bytes()
        return {
            **row,
            **json.loads(done.stdout.splitlines()[-1]),
            "ninja": ninja_log(folder / "ext"),
            "fell_back": b"generated/variable_factories.h" in headers,
        }


def board(side_by_side: bool, number: int) -> dict[str, object]:
    """Build reference and submission of a leaderboard in CUDA C++ that were never built, as a job does."""
    from kernelcup_harness.protocol import Backend, HarnessKind, JobSpec, Mode, SourceTree
    from kernelcup_harness.run import standard
    from kernelcup_harness.run.record import Record

    salt = f"\n// {number} {time.time_ns()}\n"
    spec = JobSpec(
        job_id="board",
        mode=Mode.TEST,
        backend=Backend.CUDA,
        harness=HarnessKind.STANDARD,
        sources={"reference.cu": (EXAMPLE / "reference.cu").read_text() + salt},
        reference_module="reference.cu",
        private_files=["reference.cu"],
        submission=SourceTree.of((EXAMPLE / "template.cu").read_text() + salt, "submission.cu"),
    )
    with tempfile.TemporaryDirectory() as scratch:
        record = Record(spec, "", lambda _event: None)
        run = standard.StandardRun(spec, b"", Path(scratch), record, boxed=True)
        run._compilers.environment()
        roles = run._roles_that_build()
        if not side_by_side:
            run._each_built = lambda roles: ((role, run._builder(role, set()).get()) for role in roles)
        began = time.perf_counter()
        builds = run._built(roles)
        seconds = time.perf_counter() - began
    sizes = {role: os.fstat(build._fd).st_size for role, build in (builds or {}).items() if build}
    return {"seconds": seconds, "bytes": sizes}


def boards() -> dict[str, object]:
    """Time both ways in turns."""
    found = {}
    for number in range(3):
        for name, side_by_side in (("one after the other", False), ("side by side", True)):
            found[f"{name}, {number + 1}"] = board(side_by_side, number)
    return found


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
    """Time `torch.cuda._compile_kernel` in a process that has torch and its context, and NVRTC alone."""
    import torch

    if not torch.cuda.is_available():
        return {}
    torch.zeros(1, device="cuda")
    found = {}
    source = KERNEL.replace("__global__", 'extern "C" __global__')
    for number, (attempt, header) in enumerate(
        (("first", ""), ("second", ""), ("with cuda_fp16.h", "#include <cuda_fp16.h>\n")), 1
    ):
        began = time.perf_counter()
        try:
            kernel = torch.cuda._compile_kernel(header + source.replace("SALT", f"{number}.f"), "add")
        except RuntimeError as error:
            found[f"torch.cuda._compile_kernel, {attempt}"] = {"failed": str(error)[-500:]}
            continue
        seconds = time.perf_counter() - began
        o, a = torch.empty(1000, device="cuda"), torch.zeros(1000, device="cuda")
        kernel((4, 1, 1), (256, 1, 1), (o, a, 1000))
        right = bool((o == number).all())
        found[f"torch.cuda._compile_kernel, {attempt}"] = {"seconds": seconds, "right": right}
    return found


def table(result: dict[str, object]) -> str:
    """Return what was measured in a few lines."""
    lines = []
    for row in result["rows"]:
        name = f"load_inline, {row['row']}, {row['compilers']}"
        if "failed" in row:
            lines.append(f"{name}: FAILED {row['failed'][-200:]!r}")
            continue
        parts = "  ".join(f"{file} {end - start:.1f}" for file, (start, end) in row["ninja"].items())
        said = f"right {row['right']}" + (", fell back" if row["fell_back"] else "")
        lines.append(f"{name:56} {row['load_inline']:6.2f} s  {parts}  {said}")
    for part in ("boards", "nvrtc", "alone"):
        found = result.get(part)
        if not isinstance(found, dict):
            lines.append(f"{part}: {found}")
            continue
        for name, value in found.items():
            taken = (
                f"{value['seconds']:6.2f} s" if isinstance(value, dict) and "seconds" in value else str(value)
            )
            lines.append(f"{part}, {name:49} {taken}")
    return "\n".join(lines)


def main(out: Path) -> None:
    """Run all rows, print and store them."""
    out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    result: dict[str, object] = {"cores": os.cpu_count(), "rows": []}
    for tool in ("nvcc", "g++", "ninja", "ld.gold"):
        try:
            text = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False).stdout
            result[tool] = text.strip().splitlines()[-2:]
        except OSError as error:
            result[tool] = str(error)

    def store() -> None:
        (out / "build-times.json").write_text(json.dumps(result, indent=1))

    # The first import of torch on a fresh machine reads it from disk.
    asked = (
        "import torch; print(torch.__version__, torch.cuda.is_available() and torch.cuda.get_device_name())"
    )
    done = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True)
    result["torch"] = done.stdout.strip()
    for name, part in (("boards", lambda _folder: boards()), ("nvrtc", lambda _folder: nvrtc())):
        attempt(result, name, part)
        store()
    for index, (kind, whose) in enumerate(ROWS):
        if time.monotonic() - began > LAST_START_S:
            print(f"left out: {kind}, {whose}")
            continue
        result["rows"].append(one(kind, whose, f"{index + 2}.f"))
        print(json.dumps(result["rows"][-1]), flush=True)
        store()
    if time.monotonic() - began < LAST_START_S:
        attempt(result, "alone", compilers_alone)
    result["seconds"] = time.monotonic() - began
    store()
    print(f"{table(result)}\n{result['seconds']:.0f} s in all, {result['torch']}, {result['cores']} cores")


def attempt(result: dict[str, object], name: str, part: Callable[[Path], dict[str, object]]) -> None:
    """Store what a part finds; the other figures stand without it."""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            result[name] = part(Path(scratch))
        except Exception as error:
            result[name] = repr(error)
    print(json.dumps(result[name]), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--child":
        child(*sys.argv[2:])
    else:
        main(Path(sys.argv[1]))
