"""How C++ and CUDA C++ of a task and its submissions are compiled."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class CudaBuild:
    """What a task asks of the compiler."""

    sources: list[str] = field(default_factory=list)
    """Files that are compiled together with the task's own one, never with a submission."""
    include_dirs: list[str] = field(default_factory=list)
    """Folders of the job's files."""
    defines: dict[str, str] = field(default_factory=dict)
    """Identifier to value; an empty value defines the identifier alone."""
    compile_flags: list[str] = field(default_factory=list)
    """Further flags; g++ gets those that it knows."""
    rtol: float | None = None
    """Tolerances of a C interface without a check of its own; None for those of the dtype."""
    atol: float | None = None
    """Likewise, absolute."""
