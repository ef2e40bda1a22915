from __future__ import annotations

import io
import stat
import zipfile
from collections.abc import Mapping

import pytest

from builders import zip_of
from kernelcup.app.boards import upload as task_upload
from kernelcup.app.boards.upload import load_upload
from kernelcup.errors import InvalidTask

YML = """\
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
lang: py
description: Copy.
templates: {Python: template.py}
tests: [{size: 4, seed: 1}]
benchmarks: [{size: 64, seed: 2}]
"""
REFERENCE = """\
def generate_input(size: int, seed: int):
    return [seed] * size


def ref_kernel(data):
    return data


def check_implementation(data, output):
    return data == output
"""
OLDER = """\
def generate_input():
    return [1.0]


def ref_kernel(data):
    return data


def check_implementation(user_output, reference_output) -> bool:
    return user_output == reference_output
"""
FILES = {"task.yml": YML, "reference.py": REFERENCE, "template.py": "def custom_kernel(data): ...\n"}


def upload(files: Mapping[str, str | bytes], prefix: str = "") -> dict[str, bytes]:
    return {
        f"{prefix}{name}": text.encode() if isinstance(text, str) else text for name, text in files.items()
    }


def refusal(files: Mapping[str, str | bytes]) -> list[str]:
    with pytest.raises(InvalidTask) as caught:
        load_upload(upload(files))
    return str(caught.value).splitlines()


def test_a_folder_is_the_same_task_as_its_zip() -> None:
    folder = load_upload(upload(FILES, "copy/"))
    assert folder.name == "copy"
    assert folder == load_upload({"copy.zip": zip_of(upload(FILES))})
    assert load_upload(upload(FILES), name="copy") == folder


def test_an_older_single_file_is_a_task() -> None:
    task = load_upload({"vectorsum.py": OLDER.encode()})
    assert task.name == "vectorsum"
    assert task.sources == {"reference.py": OLDER}


def test_a_file_beside_the_folder_can_be_used_when_it_is_sent_too() -> None:
    yml = YML.replace("source: reference.py", "source: ../shared.py")
    task = load_upload(upload({"copy/task.yml": yml, "copy/template.py": "", "shared.py": REFERENCE}))
    assert task.sources["reference.py"] == REFERENCE


def test_problems_name_the_place_as_the_sender_wrote_it() -> None:
    (line,) = refusal(
        {
            "my/copy/task.yml": YML + "gpu: [H100]\n",
            "my/copy/reference.py": REFERENCE,
            "my/copy/template.py": "",
        }
    )
    assert line.startswith("my/copy/task.yml:9:1: gpu: ")
    (line,) = refusal({"old.py": "def generate_input():\n    return (\n"})
    assert line.startswith("old.py:2:")


@pytest.mark.parametrize(
    "source",
    ["/etc/passwd", "../../../../etc/passwd", "../x.py", "..\\\\x.py", "C:/x.py", "task.yml/../../x"],
)
def test_nothing_outside_of_the_upload_is_read(source: str) -> None:
    as_source = {**FILES, "task.yml": YML.replace("source: reference.py", f'source: "{source}"')}
    as_template = {**FILES, "task.yml": YML.replace("Python: template.py", f'Python: "{source}"')}
    for files in (as_source, as_template):
        lines = refusal(files)
        assert all(line.startswith(("task.yml:", "reference.py:")) for line in lines)
        assert "root:" not in "".join(lines)


@pytest.mark.parametrize(
    "name", ["/task.yml", "../x.py", "a/../x.py", "a\\x.py", "x\0.py", "a//b", "", "C:/x"]
)
def test_odd_names_are_refused(name: str) -> None:
    (line,) = refusal({**FILES, name: ""})
    assert "the name" in line
    assert "\0" not in line


def test_no_files_too_many_and_too_much_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "there are no files" in refusal({})[0]
    many = {f"f{index}.py": "" for index in range(201)}
    assert "has 201 files; at most 200" in refusal(many)[0]
    monkeypatch.setattr(task_upload, "MAX_BYTES", 100)
    assert "together" in refusal(FILES)[0]


def test_a_large_file_is_refused_with_its_name() -> None:
    (line,) = refusal({**FILES, "big.bin": b"x" * (5 * 1024 * 1024 + 1)})
    assert line == "big.bin:1:1: is larger than 5 MiB"


def test_a_link_in_a_zip_is_refused() -> None:
    link = zipfile.ZipInfo("reference.py")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("task.yml", YML)
        archive.writestr(link, "/etc/passwd")
    (line,) = refusal({"copy.zip": buffer.getvalue()})
    assert line.startswith("copy.zip/reference.py:1:1: is a link")


def test_a_zip_bomb_is_refused() -> None:
    (line,) = refusal({"bomb.zip": zip_of({"task.yml": YML.encode(), "x.py": b"0" * (4 << 20)})})
    assert "zip bomb" in line


@pytest.mark.parametrize("name", ["task.txt", "kernel.c", "set.yaml", "README"])
def test_other_single_files_are_no_task(name: str) -> None:
    (line,) = refusal({name: "x"})
    assert line.startswith(f"{name}:1:1: is ")


def test_files_without_a_task_and_with_several_are_refused() -> None:
    assert refusal({"a.py": "", "b.py": ""}) == [".:1:1: has no `task.yml`"]
    (line,) = refusal({**{f"a/{k}": v for k, v in FILES.items()}, **{f"b/{k}": v for k, v in FILES.items()}})
    assert "has several tasks (a, b); send one task alone" in line
