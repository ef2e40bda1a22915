"""Files that are kept of a run."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptFile:
    """A file of a profile or of a ranked run."""

    name: str
    nbytes: int
    sha256: str
    gz64: str = ""
    """Its content, gzip and base64; empty once it is in the file store."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptBinary:
    """The binary of an accepted ranked run, to be replayed in the place of the submission's code."""

    run: int
    """The number of that run."""
    device: str = ""
    """The device and driver that it ran on, as ``profiles.device_of`` names them; elsewhere the code is judged."""
    files: list[KeptFile] = field(default_factory=list)
    """``binary.kcgraph`` and ``binary.memory``, with their content."""
    why: str = ""
    """Why it cannot be replayed, so that the code is judged; empty if it may be."""
