"""Read ``config`` and choose the harness."""

from __future__ import annotations

from dataclasses import dataclass

from kernelcup.domain import CudaConfig, Language
from kernelcup.tasks.manifest.problems import Findings
from kernelcup.tasks.manifest.schema import CudaConfigShape, PythonConfigShape, TaskShape
from kernelcup.tasks.manifest.validation import validate
from kernelcup.tasks.sources.files import Sources
from kernelcup_harness.protocol import HarnessKind


@dataclass(frozen=True, slots=True)
class Configuration:
    """The result of reading ``lang``, ``config`` and ``harness``."""

    harness: HarnessKind
    main: str | None = None
    cuda: CudaConfig | None = None


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
    default = HarnessKind.OWN if shipped else HarnessKind.STANDARD
    return Configuration(shape.harness or default, main if shipped else None)


def _cuda(shape: TaskShape, sources: Sources, findings: Findings) -> Configuration:
    config = validate(CudaConfigShape, shape.config, ("config",), findings)
    if shape.harness is HarnessKind.STANDARD:
        findings.at_value(("harness",), "must be 'own' for `lang: cu`: a CUDA task brings its own harness")
    if config is None:
        return Configuration(HarnessKind.OWN)
    for index, name in enumerate(config.sources):
        if name not in sources.listed:
            findings.at_value(("config", "sources", index), f"`{name}` is not among `files`")
    cuda = CudaConfig(
        sources=config.sources,
        include_dirs=config.include_dirs,
        defines=config.defines,
        compile_flags=config.compile_flags,
    )
    return Configuration(HarnessKind.OWN, cuda=cuda)
