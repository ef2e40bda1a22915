"""Submissions of several files: what is read, refused, stored and judged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from builders import SUBMISSION, make_board, make_spec, make_submission, make_task
from kernelcup import errors
from kernelcup.app.submissions.queries.submissions import hash_of
from kernelcup.app.submissions.submissions import get_code
from kernelcup.app.submissions.submit import read_tree
from kernelcup.tasks.job_spec import placed
from kernelcup.tasks.sources.submitted import LARGEST_BYTES, pack, pack_texts, read_folder
from kernelcup_harness.protocol import HarnessKind, SourceTree
from zips import BAD, HELPER, MAIN, TWO, zipped


def tree(files: dict[str, str]) -> SourceTree:
    return read_tree("mine.zip", zipped(dict(files)))


@pytest.mark.parametrize("name", BAD)
def test_a_bad_zip_is_refused(name: str) -> None:
    content, error = BAD[name]
    with pytest.raises(errors.InvalidSubmission) as refused:
        read_tree("mine.zip", content)
    assert type(refused.value) is error


def test_a_zip_is_read_whatever_its_name_and_its_top_folder() -> None:
    expected = SourceTree(entry="submission.py", files=TWO)
    assert tree(TWO) == expected
    assert read_tree("mine.py", zipped(dict(TWO))) == expected
    wrapped = {f"mine-main/{name}": text for name, text in TWO.items()}
    assert tree({**wrapped, "__MACOSX/mine-main/._helper.py": "x"}) == expected


@pytest.mark.parametrize(
    ("files", "entry"),
    [
        (TWO, "submission.py"),
        ({"submission.cu": "x", "a.cuh": ""}, "submission.cu"),
        ({"submission.py": "x", "submission.cu": "x"}, "submission.py"),
        ({"kernel.py": "x"}, "kernel.py"),
        ({"a.py": "#!POPCORN entry b.py\n", "b.py": "x"}, "b.py"),
        ({"submission.py": "x", "src/k.cu": "//!POPCORN entry src/k.cu\n"}, "src/k.cu"),
    ],
)
def test_the_entry_is_the_only_file_the_named_one_or_submission(files: dict[str, str], entry: str) -> None:
    assert tree(files).entry == entry


def test_one_file_has_the_same_hash_however_it_is_named_or_packed() -> None:
    one = SourceTree.of(SUBMISSION)
    assert (
        hash_of(one) == hash_of(SourceTree.of(SUBMISSION, "kernel.py")) == hash_of(tree({"k.py": SUBMISSION}))
    )


def test_of_several_files_texts_names_and_entry_count() -> None:
    renamed = {"submission.py": MAIN, "other.py": HELPER}
    changed = {**TWO, "helper.py": f"{HELPER}\n"}
    trees = [tree(TWO), tree(renamed), tree(changed), SourceTree(entry="helper.py", files=TWO)]
    assert len({hash_of(each) for each in trees}) == 4
    assert hash_of(tree(dict(reversed(TWO.items())))) == hash_of(tree(TWO))


def test_several_files_are_stored_and_shown(db) -> None:
    make_board(db)
    made = make_submission(db, file_name="mine.zip", content=zipped(dict(TWO)))
    assert (made.file_name, made.code_hash) == ("submission.py", hash_of(tree(TWO)))
    assert get_code(db, made.id) == tree(TWO)


def test_directives_of_the_entry_count(db) -> None:
    make_board(db)
    make_board(db, name="other")
    files = {"submission.py": f"#!POPCORN leaderboard other\n{MAIN}", "helper.py": HELPER}
    assert make_submission(db, content=zipped(dict(files))).leaderboard == "other"


def test_the_limit_of_a_leaderboard_is_for_all_files_together(db) -> None:
    make_board(db, max_file_bytes=len(MAIN) + len(HELPER) - 1)
    with pytest.raises(errors.FileTooLarge):
        make_submission(db, content=zipped(dict(TWO)))
    make_board(db, name="roomy", max_file_bytes=len(MAIN) + len(HELPER))
    assert make_submission(db, board="roomy", content=zipped(dict(TWO))).id


@pytest.mark.parametrize("name", ["reference.py", "reference/__init__.py"])
def test_a_file_that_the_task_has_too_is_refused(db, name: str) -> None:
    make_board(db)
    with pytest.raises(errors.InvalidFiles, match="'reference', too"):
        make_submission(db, content=zipped({**TWO, name: ""}))


def test_the_entry_has_the_language_of_the_task(db) -> None:
    make_board(db)
    with pytest.raises(errors.WrongFileType):
        make_submission(db, content=zipped({"a.h": "", "helper.py": "#!POPCORN entry a.h\n"}))


def test_a_tasks_own_harness_finds_an_entry_of_another_name() -> None:
    files = {"fast/kernel.py": "#!POPCORN entry fast/kernel.py\n", "helper.py": HELPER}
    given = placed(tree(files), make_task(), HarnessKind.OWN)
    assert (given.entry, given.code) == ("submission.py", "from fast.kernel import *\n")
    assert placed(tree(files), make_task(), HarnessKind.STANDARD) == tree(files)
    assert placed(tree(TWO), make_task(), HarnessKind.OWN) == tree(TWO)


def test_a_job_of_one_file_has_the_name_that_the_task_imports() -> None:
    given = placed(SourceTree.of("x", "My Kernel.PY"), make_task(), HarnessKind.STANDARD)
    assert given == make_spec(submission="x").submission


def test_a_folder_is_read_without_hidden_files(tmp_path: Path) -> None:
    for name in ("submission.py", ".git/config", "pkg/a.py", "__pycache__/a.pyc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    assert read_folder(tmp_path) == {"submission.py": b"x", "pkg/a.py": b"x"}


def test_a_folder_with_a_link_or_too_much_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"#" * LARGEST_BYTES)
    (tmp_path / "b.py").write_bytes(b"#")
    with pytest.raises(errors.FileTooLarge):
        read_folder(tmp_path)
    os.remove(tmp_path / "a.py")
    (tmp_path / "folder").symlink_to("/")
    with pytest.raises(errors.InvalidFiles, match="link"):
        read_folder(tmp_path)


@pytest.mark.parametrize("name", ["../a.py", "a\0.py", "\ud800.py", "/a.py", "a//b.py", ""])
def test_names_that_no_zip_can_hold_are_refused(name: str) -> None:
    with pytest.raises(errors.InvalidFiles):
        pack({name: b""})


def test_the_same_files_are_packed_alike() -> None:
    assert pack_texts(TWO) == pack_texts(dict(reversed(TWO.items())))
