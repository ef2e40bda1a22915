"""The harness's interface for compiling without a device: a JobSpec goes in, one :class:`Compiled` comes out."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelResources:
    """What one kernel takes, as the assembler reports it."""

    name: str
    registers: int
    """Of a thread."""
    shared_bytes: int
    """Static, of a block."""
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledFor:
    """The device code for one architecture."""

    architecture: str
    """For example ``sm_90a``."""
    kernels: list[KernelResources] = field(default_factory=list)
    sass: str = ""
    ptx: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnostic:
    """One error of a compiler."""

    file: str
    line: int
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Compiled:
    """What compilers made of a submission."""

    error: str = ""
    """Why it did not compile; empty if it did."""
    diagnostics: list[Diagnostic] = field(default_factory=list)
    targets: list[CompiledFor] = field(default_factory=list)
    trouble: str = ""
    """Why this machine could not try."""
