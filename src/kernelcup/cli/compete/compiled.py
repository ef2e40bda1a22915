"""What ``kernelcup run`` does with CUDA C++ beside judging it: it is compiled, and shown."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from kernelcup.cli import exit_codes
from kernelcup.cli.show.output import plain
from kernelcup.domain import OWN_JOB, Device, Task
from kernelcup.errors import InvalidValue, LaunchError
from kernelcup_harness.protocol import Backend, Mode, Reason, RunReport, SourceTree, Verdict, to_json
from kernelcup_harness.protocol.compiled import Compiled, KernelResources

if TYPE_CHECKING:
    from rich.console import Console

    from kernelcup.config.settings import Config

KINDS = ("resources", "ptx", "sass")
NOT_RUN = "compiled, not run: no GPU here"
DEVICE_CODE = (".cu", ".cuh")


def read_show(text: str | None) -> list[str]:
    """Return what ``--show`` names. Raise ``InvalidValue``."""
    kinds = [each.strip() for each in (text or "").split(",") if each.strip()]
    if unknown := [each for each in kinds if each not in KINDS]:
        raise InvalidValue(f"--show {unknown[0]}: expected {', '.join(KINDS)}")
    return kinds


def needs_gpu(code: SourceTree) -> bool:
    """Return whether a submission consists of CUDA C++ that only a GPU can run."""
    return code.entry.endswith(DEVICE_CODE)


def lacks_gpu(code: SourceTree, device: Device) -> bool:
    """Return whether a submission can be compiled for a device, but not run there."""
    return needs_gpu(code) and device.backend is not Backend.CUDA


def compile_here(
    task: Task, code: SourceTree, kinds: Sequence[str], settings: Config, devices: Sequence[str]
) -> Compiled:
    """Compile for devices that are not here.

    Raise ``InvalidValue`` for another language, ``LaunchError`` without a compiler.
    """
    from kernelcup.launchers.local.compiling import architectures_of, compile_only
    from kernelcup.tasks.job_spec import build_job_spec

    if not needs_gpu(code):
        raise InvalidValue("--show: only CUDA C++ (.cu, .cuh) is compiled before it runs")
    spec = build_job_spec(task, job_id=OWN_JOB, submission=code, mode=Mode.TEST, backend=Backend.CUDA)
    if code.entry == spec.reference_module:
        # All files of the task are in it already, and a submission would get the name that the task imports.
        spec = dataclasses.replace(spec, submission=code, sources={}, private_files=[], shown_files={})
    found = compile_only(
        spec,
        environments=settings.environments_dir,
        listings=kinds,
        architectures=architectures_of(devices),
        environ=settings.environ,
    )
    if found.trouble:
        raise LaunchError(found.trouble)
    return found


def compile_for(devices: Sequence[str]) -> dict[str, str]:
    """Return the variable that names the architectures of devices to the emulated one."""
    from kernelcup.launchers.local.compiling import COMPILE_FOR, architectures_of

    words = [re.sub(r"sm_(\d+)(\d)(a?)", r"\1.\2\3", each) for each in architectures_of(devices)]
    return {COMPILE_FOR: ";".join(words)}


def only_compiled(report: RunReport) -> str:
    """Return what was compiled of a submission's inline CUDA C++ and cannot run here; empty if it was judged."""
    told = [report.message, *(stage.message for stage in report.stages)]
    lines = (line for text in told for line in text.splitlines() if report.reason is Reason.IMPORT)
    return next(
        (line.partition("ImportError: ")[2] for line in lines if f"ImportError: {NOT_RUN}" in line), ""
    )


def end_unrun(said: str, *, as_json: bool) -> typer.Exit:
    """Print what came of inline CUDA C++; return what ends the command."""
    typer.echo(json.dumps({"verdict": None, "outcome": NOT_RUN, "message": said}) if as_json else said)
    return typer.Exit(exit_codes.NOT_RUN)


def show(found: Compiled, kinds: Sequence[str]) -> None:
    """Print errors, resources and listings."""
    from kernelcup.cli.show import terminal
    from kernelcup_harness.protocol.first_errors import advice

    out = terminal.console()
    if found.error:
        terminal.raw(out, plain(f"{found.error}\n{advice(found.error)}"))
        return
    for target in found.targets:
        if not kinds or "resources" in kinds:
            show_resources(out, target.architecture, target.kernels)
        for text in (target.ptx, target.sass):
            if text:
                terminal.raw(out, plain(text))


def show_resources(out: Console, architecture: str, kernels: Sequence[KernelResources]) -> None:
    """Print what each kernel takes."""
    from kernelcup.cli.show import terminal

    for each in kernels:
        spilled = each.spill_store_bytes + each.spill_load_bytes
        spills = f", spills {each.spill_store_bytes} + {each.spill_load_bytes} bytes" if spilled else ""
        stack = f", {each.stack_bytes} bytes of stack" if each.stack_bytes else ""
        text = f"{each.registers} registers, {each.shared_bytes} bytes of shared memory{spills}{stack}"
        terminal.raw(out, plain(f"{architecture}  {each.name}: {text}"))


def end(found: Compiled, *, as_json: bool) -> typer.Exit:
    """Say what came of a submission that cannot run here; return what ends the command."""
    if as_json:
        verdict = Verdict.COMPILE_ERROR.value if found.error else None
        said = {"verdict": verdict, "outcome": verdict or NOT_RUN, "compiled": to_json(found)}
        typer.echo(json.dumps(said))
    elif found.error:
        typer.echo(f"verdict: {Verdict.COMPILE_ERROR.value}")
    else:
        typer.echo(f"{NOT_RUN} ({', '.join(each.architecture for each in found.targets)})")
    return typer.Exit(exit_codes.VERDICTS[Verdict.COMPILE_ERROR] if found.error else exit_codes.NOT_RUN)
