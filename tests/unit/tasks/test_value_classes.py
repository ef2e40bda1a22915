"""What a submission sees of the classes in files that are withheld from it."""

from __future__ import annotations

from typing import Any

from kernelcup.tasks.job_spec import shown_files

REFERENCE = '''\
import collections
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import torch

Pair = collections.namedtuple("Pair", ["left", "right"])


@dataclass(frozen=True)
class Shape:
    """A shape."""

    rows: int
    columns: int = 3
    most: ClassVar[int] = 5


@dataclass
class Batch(Shape):
    x: torch.Tensor = None
    names: list[str] = field(default_factory=list)

    def answer(self):
        return secret(self.x)


class Out(NamedTuple):
    y: torch.Tensor
    scale: float = 0.5


class Plain:
    x: int


class Derived(torch.nn.Module):
    x: int


def ref_kernel(data):
    return data
'''


def shown(text: str) -> dict[str, Any]:
    """Run what is shown of a file, and return what it defines."""
    text = shown_files({"reference.py": text})["reference.py"]
    assert "secret" not in text
    assert "torch" not in text
    found: dict[str, Any] = {"__name__": "shown"}
    # Compiled as a submission imports it, without this module's `annotations`.
    exec(compile(text, "shown", "exec", dont_inherit=True), found)
    return found


def test_classes_keep_their_names_fields_and_defaults() -> None:
    found = shown(REFERENCE.replace("@dataclass(frozen=True)", "@dataclass"))
    assert found["Pair"]._fields == ("left", "right")
    assert found["Out"]._fields == ("y", "scale")
    assert found["Out"]("y").scale == 0.5
    batch = found["Batch"](1, x=2)
    assert (batch.rows, batch.columns, batch.x, batch.names) == (1, 3, 2, None)
    assert not hasattr(batch, "answer")


def test_options_of_a_class_stay() -> None:
    assert shown(REFERENCE.split("@dataclass\n")[0])["Shape"].__dataclass_params__.frozen


def test_nothing_else_of_the_file_is_shown() -> None:
    found = shown(REFERENCE.replace("@dataclass(frozen=True)", "@dataclass"))
    assert not {"ref_kernel", "Derived"} & found.keys()


def test_a_plain_class_is_shown_without_what_it_does() -> None:
    text = "class Plain:\n    x: int\n\n    def __init__(self):\n        self.x = secret\n"
    assert vars(shown(text)["Plain"]).keys() & {"x", "__init__"} == set()


def test_a_file_without_such_classes_is_not_shown_at_all() -> None:
    assert (
        shown_files({"reference.py": "def ref_kernel(data): ...\n", "notes.txt": "", "bad.py": "def"}) == {}
    )
