"""What compilers make of a submission, without a device: errors by line, resources, PTX and SASS. No torch."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from kernelcup_harness.isolation import processes
from kernelcup_harness.protocol import to_json
from kernelcup_harness.protocol.compiled import Compiled, CompiledFor, Diagnostic, KernelResources
from kernelcup_harness.submission.cuda import compiling
from kernelcup_harness.submission.port import NotCompiled

MOST_LISTING = 2 << 20
"""Longest listing of one architecture, in characters."""
MOST_DIAGNOSTICS = 50
# `a.cu(3): error: text` of nvcc and `a.cu:3:5: error: text` of the host's compiler.
ERROR = re.compile(
    r"^(?P<file>[^\s:(]+)(?:\((?P<nvcc>\d+)\)|:(?P<host>\d+)(?::\d+)?): (?:fatal )?error\s*:? (?P<text>.*)$"
)
ENTRY = re.compile(r"Compiling entry function '([^']+)'")
PROPERTIES = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")


def main(parent: str, memory_bytes: str, entry: str, architectures: str, listings: str) -> None:
    """Compile a file of the working folder for some architectures, and write one JSON line. Runs in a sandbox."""
    processes.die_with_parent(int(parent))
    processes.limit_resources(int(memory_bytes) or None)
    found = inspected(Path(entry), architectures.split(","), frozenset(listings.split(",")), os.environ)
    sys.stdout.write(json.dumps(to_json(found)) + "\n")


def inspected(
    entry: Path, architectures: list[str], listings: frozenset[str], environ: Mapping[str, str]
) -> Compiled:
    """Return what comes of a file; ``listings`` may have ``sass`` and ``ptx``."""
    if trouble := compiling.trouble(entry, environ):
        return Compiled(trouble=trouble)
    try:
        # As a whole, because only the linker knows whether the right function is there.
        linked_for = re.sub(r"sm_(\d+)(\d)a?", r"\1.\2", architectures[0])
        compiling.compiled(entry, {"TORCH_CUDA_ARCH_LIST": linked_for, **environ})
        targets = [target(entry, each, listings, environ) for each in architectures]
    except NotCompiled as error:
        return Compiled(error=str(error), diagnostics=list(diagnostics(str(error)))[:MOST_DIAGNOSTICS])
    return Compiled(targets=targets if compiling.wants_nvcc(entry, environ) else [])


def target(
    entry: Path, architecture: str, listings: frozenset[str], environ: Mapping[str, str]
) -> CompiledFor:
    """Compile the device code for one architecture. Raise :class:`NotCompiled`."""
    with tempfile.TemporaryDirectory() as folder:
        cubin, ptx = Path(folder, "device.cubin"), Path(folder, "device.ptx")
        said = compile_device(entry, ["-cubin", "-Xptxas", "-v"], architecture, cubin, environ)
        if "ptx" in listings:
            compile_device(entry, ["-ptx"], architecture, ptx, environ)
        return CompiledFor(
            architecture=architecture,
            kernels=list(resources(said)),
            sass=disassembled(cubin) if "sass" in listings else "",
            ptx=ptx.read_text(encoding="utf-8")[:MOST_LISTING] if ptx.exists() else "",
        )


def compile_device(
    entry: Path, options: list[str], architecture: str, made: Path, environ: Mapping[str, str]
) -> str:
    """Return what nvcc prints while it compiles device code. Raise :class:`NotCompiled`."""
    header = made.with_name(compiling.HEADER)
    compiling.write_header(header)
    argv = compiling.device_command(entry, options, architecture, made, header, environ)
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    text = done.stdout.decode(errors="replace")
    if done.returncode:
        raise NotCompiled(f"for {architecture}: {compiling.explained(text, entry, header, argv[0])}")
    return text


def resources(said: str) -> Iterator[KernelResources]:
    """Yield what each kernel takes, of the assembler's report."""
    name, properties = "", ("0", "0", "0")
    for line in said.splitlines():
        if match := ENTRY.search(line):
            name, properties = match[1], ("0", "0", "0")
        elif match := PROPERTIES.search(line):
            properties = (match[1], match[2], match[3])
        elif name and (match := USED.search(line)):
            stack, stores, loads = map(int, properties)
            yield KernelResources(
                name=demangled(name),
                registers=int(match[1]),
                shared_bytes=int(match[2] or 0),
                spill_store_bytes=stores,
                spill_load_bytes=loads,
                stack_bytes=stack,
            )
            name = ""


def diagnostics(text: str) -> Iterator[Diagnostic]:
    """Yield the errors of compilers that name a file and a line."""
    for line in text.splitlines():
        if match := ERROR.match(line):
            yield Diagnostic(
                file=match["file"], line=int(match["nvcc"] or match["host"]), text=match["text"].strip()
            )


def disassembled(cubin: Path) -> str:
    """Return the machine code in words. Raise :class:`NotCompiled` if nothing here can do that."""
    tool = disassembler()
    if tool is None:
        raise NotCompiled("no nvdisasm here: NVIDIA's toolkit or `pip install triton` brings it")
    done = subprocess.run([tool, "-c", str(cubin)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotCompiled(f"nvdisasm: {done.stderr.strip()[:2000]}")
    return done.stdout[:MOST_LISTING]


def disassembler() -> str | None:
    """Return the path of nvdisasm: the toolkit's, or the one in Triton's package."""
    spec = importlib.util.find_spec("triton")
    bundled = Path(spec.origin).parent / "backends/nvidia/bin/nvdisasm" if spec and spec.origin else None
    found = shutil.which("nvdisasm") or shutil.which("/usr/local/cuda/bin/nvdisasm")
    return found or (str(bundled) if bundled is not None and os.access(bundled, os.X_OK) else None)


def demangled(name: str) -> str:
    """Return a kernel's name as its source has it, if there is a tool for that."""
    tool = shutil.which("c++filt")
    if tool is None:
        return name
    return subprocess.run([tool, name], capture_output=True, text=True, check=False).stdout.strip() or name
