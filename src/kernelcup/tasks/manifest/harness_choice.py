"""Read ``config`` and choose the harness."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import PurePosixPath

from kernelcup.domain import Language
from kernelcup.tasks.manifest.c_interface import REFERENCES, flag_fault, missing, program_of, reference_of
from kernelcup.tasks.manifest.problems import Findings
from kernelcup.tasks.manifest.schema import CudaConfigShape, PythonConfigShape, TaskShape
from kernelcup.tasks.manifest.validation import validate
from kernelcup.tasks.sources.files import Sources
from kernelcup_harness.protocol import CudaBuild, HarnessKind


@dataclass(frozen=True, slots=True)
class Configuration:
    """The result of reading ``lang``, ``config`` and ``harness``."""

    harness: HarnessKind
    main: str | None = None
    cuda: CudaBuild | None = None


def read_configuration(shape: TaskShape, sources: Sources, findings: Findings) -> Configuration:
    """Return the configuration, and add its problems."""
    if shape.lang is Language.CUDA:
        return _cuda(shape, sources, findings)
    return _python(shape, sources, findings)


def _python(shape: TaskShape, sources: Sources, findings: Findings) -> Configuration:
    config = validate(PythonConfigShape, shape.config, ("config",), findings)
    main = config.main if config else None
    if main is not None and main == sources.submission_name:
        findings.at_value(("config", "main"), f"`{main}` is the submission; it cannot judge itself")
    shipped = main is not None and main in sources.listed
    if main and not shipped and shape.harness is not HarnessKind.STANDARD:
        findings.at_value(
            ("config", "main"), f"`{main}` is not among `files`; list it there, or write `harness: standard`"
        )
    if shape.harness is HarnessKind.OWN and config and not main:
        findings.at_value(("harness",), "`own` needs `config.main`: the file that is the task's own harness")
    # A lent harness is ours: the standard one judges the same with a clock that the submission cannot reach.
    default = HarnessKind.OWN if shipped and main not in sources.lent else HarnessKind.STANDARD
    return Configuration(shape.harness or default, main if shipped else None)


def _cuda(shape: TaskShape, sources: Sources, findings: Findings) -> Configuration:
    config = validate(CudaConfigShape, shape.config, ("config",), findings)
    if config is None:
        return Configuration(HarnessKind.OWN)
    _check_cuda(config, sources, findings)
    cuda = CudaBuild(**{field.name: getattr(config, field.name) for field in fields(CudaBuild)})
    main = program_of(config.sources, sources.texts)
    ours = reference_of(sources.texts) is not None
    # An interface of ours without a program to judge it, or with a lent one, is for the standard harness.
    default = HarnessKind.STANDARD if ours and (main is None or main in sources.lent) else HarnessKind.OWN
    if (shape.harness or default) is HarnessKind.OWN and main is None:
        text = "names no file with `main`, and no `reference.cu` has `generate_input` and `ref_kernel` by kernelcup.h"
        findings.at_key(("config", "sources"), text)
    return Configuration(shape.harness or default, main, cuda)


def _check_cuda(config: CudaConfigShape, sources: Sources, findings: Findings) -> None:
    for index, name in enumerate(config.sources):
        if name not in sources.listed:
            findings.at_value(("config", "sources", index), f"`{name}` is not among `files`")
    folders = {parent.as_posix() for name in sources.listed for parent in PurePosixPath(name).parents}
    for index, folder in enumerate(config.include_dirs):
        if PurePosixPath(folder).as_posix() not in folders:
            text = f"`{folder}` is no folder of `files`; headers of the machine are named in `libraries`"
            findings.at_value(("config", "include_dirs", index), text)
    for index, flag in enumerate(config.compile_flags):
        if (fault := flag_fault(flag)) is not None:
            findings.at_value(("config", "compile_flags", index), fault)


def check_c_reference(sources: Sources, harness: HarnessKind, findings: Findings) -> None:
    """Add problems for functions that the standard harness calls and a CUDA task does not define."""
    if harness is not HarnessKind.STANDARD:
        return
    name = reference_of(sources.texts)
    if name is None:
        text = f"list none of {', '.join(REFERENCES)} by kernelcup.h, which the standard harness needs"
        findings.at_key(("files",), text)
        return
    for signature in missing(sources.texts[name]):
        findings.elsewhere(
            sources.labels[name], (1, 1), f"has no `{signature}`, which the standard harness calls"
        )
