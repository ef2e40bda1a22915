"""Environments of a machine: packages, headers and flags beside what pip brings, known by a hash. No torch.

Each is a folder that ``kernelcup env build`` made and that all sandboxes may read: ``site/`` holds packages,
``headers/`` archives of headers, ``environment.json`` what belongs together.
"""

from __future__ import annotations

import hashlib
import json
import site
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

VARIABLE = "KERNELCUP_HARNESS_ENVIRONMENTS"
"""Names the machine's folder of environments."""
CHOSEN = "KERNELCUP_ENVIRONMENT"
"""Names the folder of a job's environment to its processes; missing for the default one."""
HASH = "KERNELCUP_ENVIRONMENT_HASH"
"""Has its hash, so that no build outlives it."""
MANIFEST = "environment.json"
SITE = "site"
DEFAULT = "default"
DECIDING = ("torch", "triton", "numpy", "nvidia", "cuda", "cupy", "helion", "tilelang")
"""The default environment is told by the versions of packages whose names begin with these."""


FOR_KERNELS = frozenset(
    "apache_tvm_ffi cuda_core cuda_python cupy_cuda12x cupy_cuda13x einops flash_attn flashinfer_python helion jax "
    "jaxlib nvidia_cutlass nvidia_cutlass_dsl ninja numba numba_cuda numpy pybind11 quack_kernels scipy tilelang torch "
    "torchao triton xformers".split()
)
"""What pip brought besides is for the service."""


class NoEnvironment(LookupError):
    """A machine lacks an environment; the text is for the leaderboard's creator."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """One environment."""

    name: str
    hash: str
    folder: Path | None = None
    """None for what pip brings."""
    include: tuple[str, ...] = ()
    """Folders of headers, relative to ``folder``."""
    flags: tuple[str, ...] = ()
    """Further arguments of nvcc."""
    variables: dict[str, str] = field(default_factory=dict)
    """What tells a job's processes of it."""


def named(name: str, environ: Mapping[str, str]) -> Environment:
    """Return an environment of this machine; an empty name is the default. Raise :class:`NoEnvironment`."""
    if not name:
        return Environment(name=DEFAULT, hash=default_hash())
    root = environ.get(VARIABLE)
    if not root or Path(name).name != name:
        raise NoEnvironment(f"this machine has no environment {name!r}: `kernelcup env build` makes one")
    return read(Path(root, name))


def chosen(environ: Mapping[str, str]) -> Environment | None:
    """Return the environment of this process's job, None for the default. Raise :class:`NoEnvironment`."""
    folder = environ.get(CHOSEN)
    return read(Path(folder)) if folder else None


def read(folder: Path) -> Environment:
    """Read an environment's manifest. Raise :class:`NoEnvironment` if it is missing or damaged."""
    try:
        body = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        return Environment(
            name=folder.name,
            hash=body["hash"],
            folder=folder,
            include=tuple(body["include"]),
            flags=tuple(body["flags"]),
            variables={CHOSEN: str(folder), HASH: body["hash"]},
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        text = f"this machine has no environment {folder.name!r}: `kernelcup env build` makes one"
        raise NoEnvironment(text) from error


def use(environ: Mapping[str, str]) -> None:
    """Make the packages of a job's environment importable; where the machine has one as well, its own goes first."""
    folder = environ.get(CHOSEN)
    if folder:
        site.addsitedir(str(Path(folder, SITE)))


def packages(environment: Environment) -> str:
    """Return an environment's packages for authors of kernels, with versions: ``numpy 2.3.1, torch 2.13.0``."""
    own = [] if environment.folder is None else _installed([str(environment.folder / SITE)])
    brought = [each for each in _installed(sys.path) if each.partition("-")[0] in FOR_KERNELS]
    return ", ".join(each.replace("-", " ", 1) for each in sorted({*own, *brought}))


def _installed(places: Iterable[str]) -> set[str]:
    """Return names and versions of the packages in some folders: ``torch-2.13.0``."""
    found = (each for place in places if place for each in Path(place).glob("*.dist-info"))
    return {each.name.removesuffix(".dist-info").lower() for each in found}


def default_hash() -> str:
    """Return a hash of the packages that pip brought, as far as they decide about kernels."""
    found = _installed(sys.path)
    deciding = sorted(name for name in found if name.startswith(DECIDING))
    return hashlib.sha256("\n".join(deciding).encode()).hexdigest()
