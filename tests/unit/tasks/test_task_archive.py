from __future__ import annotations

import contextlib
import io
import stat
import struct
import zipfile
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from task_builders import files_with, problems_of, task_files, write_task, write_zip, zip_bytes

from kernelcup.errors import InvalidTask
from kernelcup.tasks.loader import load_task
from kernelcup.tasks.sources.archive import unpack
from properties import examples


def refusal(entries: list[tuple[zipfile.ZipInfo | str, bytes]]) -> str:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, content in entries:
            archive.writestr(entry, content)
    with pytest.raises(InvalidTask) as caught:
        unpack("t.zip", buffer.getvalue())
    return str(caught.value)


def special(name: str, kind: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (kind | 0o777) << 16
    return info


@pytest.mark.parametrize("prefix", ["", "copy/", "problems/deep/copy/"])
def test_a_zip_is_the_same_task_as_its_folder(tmp_path, prefix):
    from_zip = load_task(write_zip(tmp_path / "copy.zip", task_files(prefix)))
    assert from_zip == load_task(write_task(tmp_path / "copy"))


def test_the_root_of_a_zip_is_the_problem_sets_root(tmp_path):
    files = task_files("set/copy/", files=files_with(("shared.py", "../../shared.py")))
    task = load_task(write_zip(tmp_path / "t.zip", {**files, "shared.py": "x = 1\n"}))
    assert task.sources["shared.py"] == "x = 1\n"


def test_a_source_cannot_leave_the_zip(tmp_path):
    files = task_files("copy/", files=files_with(("x.py", "../../x.py")))
    assert "leads out of the problem set's root" in problems_of(write_zip(tmp_path / "t.zip", files))[0]


def test_a_zip_with_several_tasks_is_refused(tmp_path):
    path = write_zip(tmp_path / "t.zip", {**task_files("a/"), **task_files("b/")})
    assert problems_of(path) == ["t.zip:1:1: has several tasks (a, b); zip one task alone"]


def test_a_zip_without_a_task_is_refused(tmp_path):
    assert problems_of(write_zip(tmp_path / "t.zip", {"a.py": ""})) == ["t.zip:1:1: has no `task.yml`"]


def test_shadow_files_of_macos_are_passed_over(tmp_path):
    files = {**task_files("copy/"), "__MACOSX/copy/task.yml": "\0\0"}
    assert load_task(write_zip(tmp_path / "t.zip", files)).name == "t"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("/etc/passwd", "the name is absolute"),
        ("../x.py", "the name is not plain"),
        ("a/../../x.py", "the name is not plain"),
        ("a//x.py", "the name is not plain"),
        ("a\\x.py", "has a backslash"),
        ("C:/x.py", "the name is absolute"),
        ("a\nb", "do not print"),
    ],
)
def test_an_odd_name_is_refused(name, words):
    assert words in refusal([(name, b"x")])


@pytest.mark.parametrize(
    ("kind", "words"),
    [(stat.S_IFLNK, "is a link"), (stat.S_IFIFO, "is a special file"), (stat.S_IFCHR, "is a special file")],
)
def test_a_link_or_special_file_is_refused(kind, words):
    assert words in refusal([(special("x", kind), b"/etc/passwd")])


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_file_that_is_there_twice_is_refused():
    assert "t.zip/task.yml:1:1: is in the archive twice" in refusal([("task.yml", b"a"), ("task.yml", b"b")])


def test_a_zip_bomb_is_refused():
    assert "that is a zip bomb" in refusal([("bomb", b"\0" * (4 << 20))])


def test_a_zip_that_unpacks_to_too_much_is_refused():
    # Sixty entries below every limit of a single one.
    block = zlib.compress(bytes(range(256)) * 16)[:200]
    content = (block * (1 << 20))[: 1 << 20]
    assert "unpacks to more than 50 MiB" in refusal([(f"f{i}", content) for i in range(51)])


def test_a_large_entry_is_refused():
    info = zipfile.ZipInfo("big")
    info.compress_type = zipfile.ZIP_STORED
    assert "big:1:1: is larger than 5 MiB" in refusal([(info, b"x" * (5 << 20) + b"x")])


def test_many_entries_are_refused():
    assert "has 1001 entries; at most 1000" in refusal([(f"f{i}", b"") for i in range(1001)])


def test_a_large_zip_is_refused():
    with pytest.raises(InvalidTask, match="is larger than 10 MiB"):
        unpack("t.zip", b"x" * ((10 << 20) + 1))


def test_an_encrypted_zip_is_refused():
    content = bytearray(zip_bytes({"x": "y"}))
    for header, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(header) + offset] |= 1
    with pytest.raises(InvalidTask, match="is encrypted"):
        unpack("t.zip", bytes(content))


def test_an_unusual_method_is_refused():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("x", "y")
    with pytest.raises(InvalidTask, match="packed with an unusual method"):
        unpack("t.zip", buffer.getvalue())


def test_a_size_that_lies_does_not_help():
    content = bytearray(zip_bytes({"bomb": b"\0" * (4 << 20)}))
    for header, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<I", content, content.index(header) + offset, 10)
    with pytest.raises(InvalidTask, match="is not a zip that can be read"):
        unpack("t.zip", bytes(content))


def test_no_zip_at_all_is_refused(tmp_path):
    (tmp_path / "t.zip").write_bytes(b"PK not a zip")
    assert "is not a zip that can be read" in problems_of(tmp_path / "t.zip")[0]


@settings(max_examples=examples(150))
@given(st.data())
def test_a_damaged_zip_raises_nothing_but_invalid_task(data):
    content = bytearray(zip_bytes({name: text[:40] for name, text in task_files("a/").items()}))
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(InvalidTask):
        unpack("t.zip", bytes(content))
