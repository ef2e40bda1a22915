"""Random numbers that follow from a run's secret as well as from the seed.

Some tasks use the seed as a number, so it has to be small, and then a submission can compute the answers of all seeds
beforehand. For such a task the generators of random numbers that it seeds get the seed mixed with a salt.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from numbers import Integral
from typing import Any
from unittest.mock import patch

import torch

FUNCTIONS = {
    "random": ("seed",),
    "torch": ("manual_seed",),
    "torch.random": ("manual_seed",),
    "torch.cuda": ("manual_seed", "manual_seed_all"),
    "numpy.random": ("seed", "default_rng"),
}
CLASSES = {"random": ("Random",), "numpy.random": ("RandomState", "PCG64", "MT19937", "Philox", "SFC64")}
"""What seeds, or is made of a seed, by module; those of modules that are loaded."""


def mixed(salt: int, seed: Any) -> Any:
    """Return a seed of 32 bits for a number or a sequence of some; anything else stays as it is."""
    if not isinstance(seed, (Integral, str, bytes, Sequence)):
        return seed
    return int.from_bytes(hashlib.blake2b(f"{salt} {seed!r}".encode(), digest_size=4).digest(), "big")


class Salt:
    """The salt that is in force."""

    value = 0


def install() -> None:
    """Let tasks that are imported from now on make generators of PyTorch's that can be salted.

    An emulated device has put a class of its own in the place of PyTorch's.
    """
    if hasattr(torch.Generator, "is_salted"):
        return

    real: Any = torch.Generator

    class Kind(type(real)):  # type: ignore[misc]
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, real)

    class Generator(real, metaclass=Kind):  # type: ignore[misc]
        is_salted = True

        def manual_seed(self, seed: int) -> torch.Generator:
            return super().manual_seed(mixed(Salt.value, seed) if Salt.value else seed)

    torch.Generator = Generator


@contextmanager
def salted(salt: int) -> Iterator[None]:
    """Mix a salt into what generators are seeded with; 0 for none."""
    if not salt:
        yield
        return
    with ExitStack() as stack:
        for places, made in ((FUNCTIONS, function), (CLASSES, kind)):
            for module, what in [(sys.modules.get(name), what) for name in places for what in places[name]]:
                if module is not None:
                    stack.enter_context(patch.object(module, what, made(getattr(module, what), salt)))
        stack.enter_context(patch.object(Salt, "value", salt))
        yield


def function(real: Callable[..., Any], salt: int) -> Callable[..., Any]:
    """Return a function that seeds with a salt."""
    return lambda seed=None, *more, **named: real(mixed(salt, seed), *more, **named)


def kind(real: type, salt: int) -> type:
    """Return a class whose objects are seeded with a salt."""

    def made(self: Any, seed: Any = None, *more: Any, **named: Any) -> None:
        real.__init__(self, mixed(salt, seed), *more, **named)  # type: ignore[misc]

    return type(real.__name__, (real,), {"__init__": made})
