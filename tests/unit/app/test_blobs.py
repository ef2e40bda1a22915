"""Where files beside the database lie: what every place promises, and a bucket over S3's protocol."""

from __future__ import annotations

import errno
import gzip
import hashlib
import os
import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

import httpx
import pytest

from kernelcup.cli import wiring
from kernelcup.cli.operate import serve
from kernelcup.config.settings import Config
from kernelcup.engine import file_store
from kernelcup.engine.blobs import Blobs, Bucket, Folder, opened
from kernelcup.engine.file_store import FileStore
from kernelcup.errors import ConfigError, StorageUnavailable


class S3(BaseHTTPRequestHandler):
    """One bucket of a server that speaks S3's protocol, as far as it is used: put, get, delete, list."""

    stored: ClassVar[dict[str, bytes]] = {}
    unsigned: ClassVar[list[str]] = []

    @property
    def key(self) -> str:
        """The object's name."""
        return unquote(urlsplit(self.path).path).removeprefix("/files/")

    def do_PUT(self) -> None:
        self.stored[self.key] = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(200)

    def do_GET(self) -> None:
        asked = parse_qs(urlsplit(self.path).query)
        if "list-type" in asked:
            self.answer(200, self.listing(asked.get("prefix", [""])[0]), "application/xml")
        elif self.key in self.stored:
            self.answer(200, self.stored[self.key])
        else:
            self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

    def do_HEAD(self) -> None:
        self.answer(200, self.stored[self.key])

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        keys = re.findall("<Key>(.*?)</Key>", body)
        for key in keys:
            self.stored.pop(key, None)
        deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        self.answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode(), "application/xml")

    def listing(self, prefix: str) -> bytes:
        """The objects whose names begin with a prefix."""
        found = "".join(
            f"<Contents><Key>{key}</Key><LastModified>2026-11-24T12:00:00.000Z</LastModified>"
            f'<ETag>"1"</ETag><Size>{len(body)}</Size></Contents>'
            for key, body in self.stored.items()
            if key.startswith(prefix)
        )
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{found}</ListBucketResult>".encode()

    def answer(self, status: int, body: bytes = b"", kind: str = "application/octet-stream") -> None:
        """Send an answer, and note a request without a signature."""
        signed = self.headers.get("Authorization", "") + urlsplit(self.path).query
        if "AWS4-HMAC-SHA256" not in signed:
            self.unsigned.append(self.path)
        self.send_response(status)
        for name, value in {
            "Content-Length": str(len(body)),
            "Content-Type": kind,
            "ETag": '"1"',
            "Last-Modified": "Tue, 24 Nov 2026 12:00:00 GMT",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Blobs]:
    """A bucket on a server of this machine."""
    pytest.importorskip("obstore")
    S3.stored.clear()
    S3.unsigned.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), S3) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        for name, value in {
            "AWS_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "here",
        }.items():
            monkeypatch.setenv(name, value)
        yield opened("s3://files/kernelcup", Path("/nowhere"))
        server.shutdown()
        thread.join()
    assert S3.unsigned == []


@pytest.fixture
def memory() -> Blobs:
    """A store of obstore that is not S3."""
    return Bucket(pytest.importorskip("obstore.store").MemoryStore())


@pytest.fixture
def folder(tmp_path: Path) -> Blobs:
    """A folder that is not there yet."""
    return Folder(tmp_path / "files")


@pytest.mark.parametrize("place", ["folder", "memory", "bucket"])
def test_bytes_are_kept_replaced_listed_and_deleted(place: str, request: pytest.FixtureRequest) -> None:
    blobs: Blobs = request.getfixturevalue(place)
    assert (list(blobs.every()), blobs.get("ab/one")) == ([], None)
    blobs.put("ab/one", b"1")
    blobs.put("cd/two", bytes(1000))
    blobs.put("ab/one", b"other")
    assert (blobs.get("ab/one"), blobs.get("cd/two")) == (b"other", bytes(1000))
    found = {each.name: each for each in blobs.every()}
    assert {name: each.nbytes for name, each in found.items()} == {"ab/one": 5, "cd/two": 1000}
    assert all(each.stored_at > datetime(2026, 1, 1, tzinfo=UTC) - timedelta(1) for each in found.values())
    blobs.delete("ab/one")
    blobs.delete("ab/one")
    assert (blobs.get("ab/one"), [each.name for each in blobs.every()]) == (None, ["cd/two"])


def test_a_file_is_on_disk_before_a_row_can_name_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced, moved, replace = list[str](), list[int](), os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.readlink(f"/proc/self/fd/{handle}")))
    monkeypatch.setattr(os, "replace", lambda *names: (moved.append(len(synced)), replace(*names)))
    Folder(tmp_path).put("ab/file.gz", b"content")
    assert moved == [1]
    assert synced[0].startswith(f"{tmp_path}/ab/tmp")
    assert synced[1:] == [f"{tmp_path}/ab", str(tmp_path)]


def test_a_file_that_cannot_be_written_is_named_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageUnavailable, match=r"ab/file\.gz cannot be written: No space left on device"):
        Folder(tmp_path).put("ab/file.gz", b"content")
    assert not [*tmp_path.glob("*/*")]


def test_names_in_a_bucket_begin_with_its_prefix(bucket: Blobs) -> None:
    bucket.put("ab/one", b"1")
    assert S3.stored == {"kernelcup/ab/one": b"1"}


def test_an_upload_goes_straight_to_a_bucket_by_a_signed_address(bucket: Blobs) -> None:
    store = FileStore(bucket)
    body = b"a profile" * 100
    digest = hashlib.sha256(body).hexdigest()
    url = store.upload_url("call", digest, timedelta(minutes=10))
    assert url is not None
    assert "X-Amz-Expires=600" in url
    assert httpx.put(url, content=gzip.compress(body)).is_success
    assert store.get(digest) is None
    assert store.adopt("call", digest)
    assert store.get(digest) == body


def test_an_upload_to_a_bucket_that_is_too_large_is_not_read(
    bucket: Blobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_store, "LARGEST_UPLOAD_BYTES", 100)
    store = FileStore(bucket)
    body = os.urandom(200)
    digest = hashlib.sha256(body).hexdigest()
    store.take_in("call", digest, gzip.compress(body))
    assert not store.adopt("call", digest)


@pytest.mark.parametrize("url", ["/var/files", "http://files", "s3:files"])
def test_only_buckets_have_an_address(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected s3://BUCKET/PREFIX"):
        opened(url, tmp_path)


def test_requests_and_the_dispatcher_use_one_place(tmp_path: Path) -> None:
    settings = Config.load(None, {"KERNELCUP_HOME": str(tmp_path)})
    digest = FileStore(wiring.files_of(settings)).put(gzip.compress(b"a report"))
    assert digest is not None
    with serve.open_for_http(settings) as db:
        assert db.files.get(digest) == b"a report"


def test_a_bucket_that_cannot_be_reached_is_tried_again_like_a_database(
    bucket: Blobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:9")
    away = FileStore(opened("s3://files/kernelcup", Path("/nowhere")))
    for use in (
        lambda: away.put(gzip.compress(b"a report")),
        lambda: away.get("0" * 64),
        lambda: away.prune(datetime.now(UTC), uploaded_before=datetime.now(UTC)),
    ):
        with pytest.raises(StorageUnavailable, match="store of files"):
            use()
    away.delete("0" * 64)  # what belonged to it is gone by then
