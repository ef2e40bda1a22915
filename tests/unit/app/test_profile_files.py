"""The store of files beside the database, and what profiles put there."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
import os
from datetime import timedelta
from pathlib import Path

import pytest

from builders import NOW, make_report
from kernelcup.app.results import profile_files
from kernelcup.engine import file_store
from kernelcup.engine.blobs import Folder
from kernelcup.engine.database import Database
from kernelcup.engine.file_store import FileStore
from kernelcup.errors import NotFound
from kernelcup_harness.protocol import Counters, KeptFile, ProfileOptions, RunReport

BODY = b"a report " * 100


def report_with(file: KeptFile) -> RunReport:
    counters = Counters(case=0, options=ProfileOptions(), tool="ncu 1", files=[file])
    return dataclasses.replace(make_report(), counters=counters)


def file_of(body: bytes, sha256: str | None = None) -> KeptFile:
    packed = base64.b64encode(gzip.compress(body, mtime=0)).decode()
    return KeptFile(
        name="profile.ncu-rep",
        nbytes=len(body),
        sha256=sha256 or hashlib.sha256(body).hexdigest(),
        gz64=packed,
    )


def test_content_leaves_the_report_and_comes_back_by_its_name(db: Database) -> None:
    kept = profile_files.keep(db, report_with(file_of(BODY)))
    assert kept.counters is not None
    assert [each.gz64 for each in kept.counters.files] == [""]
    assert profile_files.content(db, kept, "profile.ncu-rep") == BODY
    with pytest.raises(NotFound, match="no file 'other'"):
        profile_files.content(db, kept, "other")


def test_a_file_is_sent_piece_by_piece_since_a_small_one_may_unpack_to_much(db: Database) -> None:
    kept = profile_files.keep(db, report_with(file_of(bytes(5 << 20))))
    sizes = [len(each) for each in profile_files.parts(db, kept, "profile.ncu-rep")]
    assert (sum(sizes), max(sizes)) == (5 << 20, 1 << 20)


def test_what_is_kept_of_a_ranked_run_leaves_its_report_too(db: Database) -> None:
    binary = dataclasses.replace(file_of(BODY), name="binary.kcgraph")
    kept = profile_files.keep(db, dataclasses.replace(make_report(), files=[binary]))
    assert [(each.name, each.gz64) for each in profile_files.files_of(kept)] == [("binary.kcgraph", "")]
    assert profile_files.content(db, kept, "binary.kcgraph") == BODY


@pytest.mark.parametrize(
    "file",
    [
        file_of(BODY, sha256="0" * 64),
        dataclasses.replace(file_of(BODY), gz64="no base64!"),
        dataclasses.replace(file_of(BODY), gz64=base64.b64encode(b"no gzip").decode()),
        dataclasses.replace(file_of(BODY), gz64=file_of(BODY).gz64[:40]),
    ],
)
def test_a_damaged_file_is_left_out(db: Database, file: KeptFile) -> None:
    kept = profile_files.keep(db, report_with(file))
    assert kept.counters is not None
    assert kept.counters.files == []


def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_store, "LARGEST_BYTES", 1 << 20)
    assert FileStore(Folder(tmp_path)).put(gzip.compress(bytes(2 << 20))) is None
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("digest", ["../../etc/passwd", "0" * 64, ""])
def test_only_hashes_are_looked_up(tmp_path: Path, digest: str) -> None:
    assert FileStore(Folder(tmp_path)).get(digest) is None


def test_equal_files_are_kept_once(tmp_path: Path) -> None:
    store = FileStore(Folder(tmp_path))
    assert store.put(gzip.compress(BODY)) == store.put(gzip.compress(BODY, 1))
    assert len(list(tmp_path.glob("??/*"))) == 1


def test_old_files_are_deleted_and_their_absence_says_why(db: Database) -> None:
    kept = profile_files.keep(db, report_with(file_of(BODY)))
    (path,) = db.files._blobs.path.glob("??/*")
    stored = NOW.timestamp()
    os.utime(path, (stored, stored))
    assert profile_files.prune(db, NOW + timedelta(days=89)) == 0
    assert profile_files.prune(db, NOW + timedelta(days=91)) == 1
    with pytest.raises(NotFound, match="kept for 90 days"):
        profile_files.content(db, kept, "profile.ncu-rep")


def test_a_file_that_was_uploaded_before_its_report_is_kept(db: Database) -> None:
    file = dataclasses.replace(file_of(BODY), gz64="")
    db.files.take_in("call", file.sha256, gzip.compress(BODY))
    assert profile_files.files_of(profile_files.keep(db, report_with(file))) == []
    kept = profile_files.keep(db, report_with(file), uploads="call")
    assert profile_files.content(db, kept, file.name) == BODY
    again = profile_files.keep(
        db, report_with(file), uploads="call"
    )  # the first try may not have been stored
    assert profile_files.files_of(again) == [file]


def test_a_hash_shows_no_sender_what_another_one_has_stored(db: Database) -> None:
    profile_files.keep(db, report_with(file_of(BODY)))
    db.files.take_in("theirs", file_of(BODY).sha256, gzip.compress(BODY))
    claimed = dataclasses.replace(file_of(BODY), gz64="")
    assert profile_files.files_of(profile_files.keep(db, report_with(claimed), uploads="mine")) == []


@pytest.mark.parametrize("digest", ["0" * 64, "../" + "0" * 61, ""])
def test_an_upload_of_another_content_than_its_hash_is_left_out(db: Database, digest: str) -> None:
    db.files.take_in("call", "0" * 64, gzip.compress(BODY))
    claimed = KeptFile(name="sass.txt", nbytes=1, sha256=digest)
    assert profile_files.files_of(profile_files.keep(db, report_with(claimed), uploads="call")) == []


def test_an_upload_is_deleted_after_a_day(tmp_path: Path) -> None:
    store = FileStore(Folder(tmp_path))
    store.take_in("call", "0" * 64, gzip.compress(BODY))
    (path,) = tmp_path.glob("*/*")
    long_ago, stored = NOW - timedelta(days=90), NOW.timestamp()
    os.utime(path, (stored, stored))
    assert store.prune(long_ago, uploaded_before=NOW - timedelta(seconds=1)) == 0
    assert store.prune(long_ago, uploaded_before=NOW + timedelta(seconds=1)) == 1


def test_the_oldest_go_where_there_is_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FileStore(Folder(tmp_path))
    digests = [store.put(gzip.compress(os.urandom(1000))) for _ in range(3)]
    for number, digest in enumerate(digests):
        os.utime(tmp_path / file_store.name_of(str(digest)), (number + 1, number + 1))
    monkeypatch.setattr(file_store, "MOST_BYTES", 2500)
    long_ago = NOW - timedelta(days=36500)
    assert store.prune(long_ago, uploaded_before=long_ago) == 1
    assert [store.get(str(each)) is not None for each in digests] == [False, True, True]


def test_what_follows_the_end_of_a_file_does_not_come_under_its_hash(tmp_path: Path) -> None:
    store = FileStore(Folder(tmp_path))
    digest = store.put(gzip.compress(BODY))
    assert digest is not None
    store.take_in("call", digest, gzip.compress(BODY) + gzip.compress(b"more"))
    assert not store.adopt("call", digest)
    assert store.get(digest) == BODY


def test_uploads_leave_before_what_was_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_store, "MOST_BYTES", 1000)
    store = FileStore(Folder(tmp_path))
    digest = store.put(gzip.compress(BODY))
    assert digest is not None
    for number in range(3):
        store.take_in("call", f"{number:064}", os.urandom(900))
    assert store.prune(NOW - timedelta(days=9999), uploaded_before=NOW - timedelta(days=9999)) >= 2
    assert store.get(digest) == BODY
