"""The statement of a task: figures of its folder, and what no page shows."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from kernelcup.domain import Task
from kernelcup.tasks.folder import MOST_BYTES, remarks
from kernelcup.tasks.loader import load_task
from kernelcup.tasks.writer import write_task

PNG = b"\x89PNG\r\n\x1a\n and the rest"
YML = """\
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
lang: py
description: |
  Blur it.

  ![the mask](img/mask.png) <br> `<b>` ![far](https://x.example/y.png)
benchmarks:
  - {size: 8, seed: 1}
"""
REFERENCE = """\
def generate_input(size, seed): ...
def ref_kernel(data): ...
def check_implementation(data, output): ...
"""


def task_with(folder: Path, figure: bytes | None) -> Task:
    """Load a task whose statement shows a figure, which has this content."""
    (folder / "img").mkdir(parents=True)
    (folder / "task.yml").write_text(YML)
    (folder / "reference.py").write_text(REFERENCE)
    if figure is not None:
        (folder / "img/mask.png").write_bytes(figure)
    return load_task(folder)


def test_a_figure_of_the_folder_is_part_of_the_task_and_of_its_copies(tmp_path) -> None:
    task = task_with(tmp_path / "blur", PNG)
    assert task.figures == {"img/mask.png": base64.b64encode(PNG).decode()}
    write_task(task, tmp_path / "copy")
    assert (tmp_path / "copy/img/mask.png").read_bytes() == PNG
    assert load_task(tmp_path / "copy").content_hash == task.content_hash


@pytest.mark.parametrize("figure", [None, b"<svg onload='alert(1)'/>", PNG + bytes(MOST_BYTES)])
def test_what_is_no_small_picture_is_left_out_and_named(tmp_path, figure) -> None:
    task = task_with(tmp_path / "blur", figure)
    assert task.figures == {}
    assert "`img/mask.png` is not shown" in next(remarks(task))


def test_html_and_figures_of_other_hosts_are_named(tmp_path) -> None:
    html, far = remarks(task_with(tmp_path / "blur", PNG))
    assert html.startswith("description: `<br>` is shown as it is written")
    assert far.startswith("description: `![far](https://x.example/y.png)` is not shown")
