"""A compiler in place of torch's: fewer headers, and the passes of nvcc side by side. Standard library only.

Most of the time that ``load_inline`` takes goes into torch's headers, which nvcc reads three times: for the device,
for the host, and once more in the host's compiler. Two things shorten that, and neither changes what is compiled:

- ``<torch/extension.h>``, ``<torch/types.h>`` and ``<ATen/ATen.h>`` come from a folder of ours first. Those are the
  installed ones without the neural networks, the autograd factories and the thousands of functions that kernels
  rarely call. A source that needs one of these does not compile, and is compiled again with the installed headers.
- nvcc lists its commands (``--dryrun``), and those that do not need each other's files run at once.

Run as ``python compilers.py nvcc|c++ FOLDER ARGUMENTS``; FOLDER is what :func:`install` made.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

PROGRAM = "compilers.py"
HEADERS = "headers"
# Includes that are left out, and the functions whose declarations are kept.
HEAVY = (
    "ATen/Context.h",
    "ATen/Formatting.h",
    "ATen/Functions.h",
    "ATen/NativeFunctions.h",
    "ATen/TensorIndexing.h",
    "ATen/core/ivalue.h",
    "ATen/core/jit_type.h",
    "torch/csrc/autograd/generated/variable_factories.h",
    "torch/csrc/autograd/variable.h",
    "torch/library.h",
)
KEPT_FUNCTIONS = (
    "empty empty_like empty_strided zeros zeros_like ones ones_like full full_like from_blob "
    "mm bmm matmul addmm sum"
).split()
KEPT_METHODS = (
    "all any bfloat16 bool clamp clone contiguous copy_ cpu cuda detach div div_ expand expand_as fill_ flatten half "
    "index_select is_complex is_contiguous is_floating_point item masked_fill matmul max mean min mm mul mul_ narrow "
    "neg new_empty new_full new_ones new_zeros permute repeat reshape reshape_as resize_ select slice split sqrt "
    "squeeze sub sub_ sum t to transpose unbind unsqueeze view view_as zero_"
).split()
COMPLEX_FUNCTIONS = (
    "abs polar exp log log10 sqrt pow sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh"
).split()
# Headers in place of torch's, with what the kept ones need of them: functions include all of the context, and
# guards a list of all kinds of lists.
EMPTIED = {
    "ATen/Context.h": "#include <c10/core/ScalarType.h>\n",
    "ATen/TensorUtils.h": "",
    "ATen/TracerMode.h": "",
    # Complex numbers on the device: a sixth of all that nvcc reads. What calls a function does not compile.
    "thrust/complex.h": "namespace thrust {\n"
    "template <typename T> struct complex {\n"
    "  T r, i;\n"
    "  __host__ __device__ complex(T real = T(), T imag = T()) : r(real), i(imag) {}\n"
    "  __host__ __device__ T real() const { return r; }\n"
    "  __host__ __device__ T imag() const { return i; }\n"
    "};\n"
    + "".join(
        f"template <typename... A> complex<float> {name}(A...) = delete;\n" for name in COMPLEX_FUNCTIONS
    )
    + "}\n",
}
GUARD = "ATen/DeviceGuard.h"
BODY = "ATen/core/TensorBody.h"
# Of each operator that is a method: its name in the class, and its name.
DEFINED = re.compile(
    r"^inline [^\n]* Tensor::(\w+)\([^\n]*\) const \{\n    return at::_ops::\w+::call\([^\n]*\n\}\n",
    re.MULTILINE,
)
DECLARED = re.compile(r"^  [\w:<>&, ]*?(\w+)\([^\n;]*\) const;\n", re.MULTILINE)
OF_METHODS = re.compile(r"^#include <ATen/ops/(\w+)_ops\.h>\n", re.MULTILINE)
# What these call is kept as well.
CALLERS = ("ATen/core/TensorBase.h", "ATen/TensorOperators.h")
OF_LISTS = (
    r"#include <ATen/core/IListRef\.h>\n"
    r"|inline std::optional<Device> device_of\(ITensorListRef \w+\) \{.*?\n\}\n"
)
# Sources with these words mean the installed headers: they would not compile, or a factory would differ.
FULL_MARKS = (
    "requires_grad",
    "complex",
    "thrust",
    "Complex",
    "COMPLEX",
    "autograd",
    "torch::nn",
    "TORCH_LIBRARY",
    "torch/torch.h",
    "torch/all.h",
    "torch/script.h",
)
# gcc's memory is not looked through for what is free until it is this large, in KiB: a process ends before that.
UNCOLLECTED = ("--param", "ggc-min-heapsize=1048576")
# It needs a third of the usual linker's time for torch's large libraries; where it is not installed, the usual links.
QUICK_LINKER = "-fuse-ld=gold"
Done = subprocess.CompletedProcess[bytes]
FROM_DRYRUN = ("PATH", "LD_LIBRARY_PATH", "CICC_PATH", "NVVMIR_LIBRARY_DIR")


def folder_of(environ: Mapping[str, str]) -> Path:
    """Return where a job's compilers lie: among its builds, because ninja builds again with another compiler."""
    return Path(environ["TORCH_EXTENSIONS_DIR"], ".kernelcup")


def unpacked(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which torch finds the compilers of a build that was unpacked; none without one."""
    folder = folder_of(environ) if "TORCH_EXTENSIONS_DIR" in environ else None
    return variables(folder) if folder is not None and (folder / PROGRAM).is_file() else {}


def variables(folder: Path) -> dict[str, str]:
    """Return the variables by which torch finds compilers."""
    return {name: str(folder / name.lower()) for name in ("CXX", "PYTORCH_NVCC")}


def install(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Write both compilers below ``folder``. Return the variables by which torch finds them; none without torch."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return {}
    include = Path(spec.origin).parent / "include"
    try:
        write_headers(include, folder / HEADERS)
    except OSError:
        return {}
    nvcc = environ.get("PYTORCH_NVCC") or str(Path(environ.get("CUDA_HOME") or "/usr/local/cuda", "bin/nvcc"))
    # The harness may be a zip, from which Python runs no single file.
    program = folder / PROGRAM
    program.write_text(
        resources.files(__package__).joinpath(program.name).read_text(encoding="utf-8"), encoding="utf-8"
    )
    real = {"CXX": environ.get("CXX") or "c++", "PYTORCH_NVCC": nvcc}
    for variable, compiler in real.items():
        script = folder / variable.lower()
        words = [sys.executable, "-I", "-S", str(program), compiler, str(folder)]
        script.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
        script.chmod(0o755)
    return variables(folder)


def write_headers(include: Path, target: Path) -> None:
    """Write the headers, made from the installed ones. Raise ``OSError`` if these are not there."""
    types = include / "torch/csrc/api/include/torch/types.h"
    functions = "".join(f"#include <ATen/ops/{name}.h>\n" for name in KEPT_FUNCTIONS)
    texts = {
        "ATen/ATen.h": "#pragma once\n#define AT_PER_OPERATOR_HEADERS\n"
        + lighter(include / "ATen/ATen.h")
        + functions,
        "torch/types.h": lighter(types),
        "torch/extension.h": "#pragma once\n#include <torch/types.h>\n#include <torch/csrc/Exceptions.h>\n"
        "#include <torch/csrc/utils/pybind.h>\n",
        BODY: with_fewer_methods(include),
        GUARD: re.sub(OF_LISTS, "", (include / GUARD).read_text(encoding="utf-8"), flags=re.DOTALL),
    }
    texts |= {name: "#pragma once\n" + text for name, text in EMPTIED.items()}
    for name, text in texts.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def lighter(header: Path) -> str:
    """Return a header without its heavy includes."""
    heavy = "|".join(map(re.escape, HEAVY))
    return re.sub(rf"^#include <(?:{heavy})>$", "", header.read_text(encoding="utf-8"), flags=re.MULTILINE)


def with_fewer_methods(include: Path) -> str:
    """Return the class of tensors without the methods that kernels rarely call: each brings headers of its own.

    All methods of a name are kept or none, and those that the base class has are, so that a call never means another
    method than with the installed headers.
    """
    text = (include / BODY).read_text(encoding="utf-8")
    names = {found[1] for found in DEFINED.finditer(text)}

    def unless(kept: set[str]) -> Callable[[re.Match[str]], str]:
        return lambda found: "" if found[1] in names and found[1] not in kept else found[0]

    others = [DECLARED.sub(unless(set()), DEFINED.sub("", text))]
    others += [(include / name).read_text(encoding="utf-8") for name in CALLERS]
    called = re.findall(r"\b(\w+)\(", re.sub(r"//.*", "", "\n".join(others)))
    kept = names & {*called, *KEPT_METHODS}
    operators = {re.sub(r"^__dispatch_|_symint$|(?<=\w)_$", "", name) for name in kept} | kept
    includes = OF_METHODS.finditer((include / "ATen/MethodOperators.h").read_text(encoding="utf-8"))
    needed = "".join(found[0] for found in includes if found[1] in operators)
    text = DECLARED.sub(unless(kept), DEFINED.sub(unless(kept), text))
    return text.replace("#include <ATen/MethodOperators.h>\n", needed)


def main(compiler: str, folder: str, *arguments: str) -> None:
    """Compile with fewer headers; if that fails, or is not meant, exactly as asked."""
    is_nvcc = Path(compiler).name == "nvcc"
    if is_light(arguments):
        compile_one = nvcc if is_nvcc else quietly
        usual = [] if is_nvcc else UNCOLLECTED
        if compile_one([compiler, f"-I{folder}/{HEADERS}", *usual, *arguments]) == 0:
            return
    elif "-shared" in arguments and not is_nvcc and quietly([compiler, QUICK_LINKER, *arguments]) == 0:
        return
    os.execvp(compiler, [compiler, *arguments])


def is_light(arguments: Sequence[str]) -> bool:
    """Return whether one source is compiled that needs few of torch's headers."""
    sources = [Path(name) for name in arguments if name.endswith((".cpp", ".cc", ".cxx", ".cu"))]
    if "-c" not in arguments or len(sources) != 1:
        return False
    try:
        text = sources[0].read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return not any(mark in text for mark in FULL_MARKS)


def quietly(argv: Sequence[str]) -> int:
    """Run a command, pass its output on if it succeeds. Return its exit code."""
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode == 0:
        sys.stderr.buffer.write(done.stdout)
    return done.returncode


def nvcc(argv: Sequence[str]) -> int:
    """Run nvcc's commands, those that are independent side by side. Return an exit code, not 0 if any failed."""
    words, dependencies = without_dependencies(argv)
    with tempfile.TemporaryDirectory(prefix="nvcc-") as scratch:
        environment = {**os.environ, "TMPDIR": scratch}
        listed = subprocess.run(
            [*words, "--dryrun"], capture_output=True, text=True, check=False, env=environment
        )
        steps = parse(listed.stderr, environment)
        if listed.returncode or steps is None:
            return quietly(argv)
        code = run_all(steps, environment)
    if code == 0 and dependencies is not None:
        Path(dependencies).write_text(f"{words[words.index('-o') + 1]}:\n", encoding="utf-8")
    return code


def without_dependencies(argv: Sequence[str]) -> tuple[list[str], str | None]:
    """Return a command without ``-MD -MF FILE``, and the file.

    nvcc writes that file by a step of its own. In a sandbox that is used once no header changes.
    """
    words = list(argv)
    if words.count("-MD") != 1 or words.count("-MF") != 1 or "-o" not in words:
        return words, None
    words.remove("-MD")
    at = words.index("-MF")
    file = words[at + 1]
    del words[at : at + 2]
    return words, file


@dataclass(kw_only=True, slots=True)
class Step:
    """One command of nvcc."""

    command: str
    files: frozenset[str]
    """Temporary files that it reads or writes."""


def parse(listed: str, environment: dict[str, str]) -> list[Step] | None:
    """Return the commands of a dry run and set its variables; None if they are not of the form that is known.

    The passes meet in one file that the host's pass writes and the device's reads, the name of the module. It is
    written here instead, so that neither waits for the other.
    """
    steps: list[Step] = []
    for line in listed.splitlines():
        text = line.removeprefix("#$ ")
        name, equals, value = text.partition("=")
        # The folder of the temporary files is removed as a whole.
        if text == line or not text.strip() or text.startswith("rm "):
            continue
        if equals and name.isidentifier():
            if name in FROM_DRYRUN:
                environment[name] = value
            continue
        steps.append(Step(command=text, files=frozenset(re.findall(r"/[^\s\"=,]*tmpxft_[^\s\"=,]*", text))))
    hosts = [step for step in steps if step.command.startswith("cudafe++ ")]
    named = (
        re.search(r'--gen_module_id_file --module_id_file_name "([^"]+)"', hosts[0].command)
        if hosts
        else None
    )
    if len(hosts) != 1 or named is None:
        return None
    path = named[1]
    digest = hashlib.sha256(repr((os.getcwd(), os.getpid(), listed)).encode()).hexdigest()[:8]
    Path(path).write_text(f"_{digest}_{len('module_cu')}_module_cu_{os.getpid():x}", encoding="utf-8")
    hosts[0].command = hosts[0].command.replace("--gen_module_id_file ", "")
    for step in steps:
        step.files -= {path}
    return steps


def run_all(steps: Sequence[Step], environment: Mapping[str, str]) -> int:
    """Run each step when all earlier ones that share a file with it have succeeded, the last one after all."""
    running: list[Future[Done | None]] = []
    with ThreadPoolExecutor(len(steps)) as pool:
        for index, step in enumerate(steps):
            is_last = index == len(steps) - 1
            needed = [running[at] for at in range(index) if is_last or steps[at].files & step.files]
            running.append(pool.submit(run_after, needed, step.command, environment))
    done = [each.result() for each in running]
    if any(each is None or each.returncode for each in done):
        return 1
    sys.stderr.buffer.write(b"".join(each.stdout for each in done if each is not None))
    return 0


def run_after(
    needed: Sequence[Future[Done | None]], command: str, environment: Mapping[str, str]
) -> Done | None:
    """Run a command after others. Return None if one of them failed."""
    if any(each is None or each.returncode for each in [future.result() for future in needed]):
        return None
    return subprocess.run(
        ["/bin/sh", "-c", command],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
