"""Where files beside the database lie: in a folder, or in a bucket that speaks S3's protocol."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kernelcup.errors import ConfigError, StorageUnavailable

if TYPE_CHECKING:
    from obstore.store import ObjectStore

S3 = "s3://"
RETRIES = {"max_retries": 4, "retry_timeout": timedelta(seconds=20)}
"""A request of a person may wait for a bucket meanwhile."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Blob:
    """A stored file."""

    name: str
    nbytes: int
    stored_at: datetime


class Blobs(Protocol):
    """Keeps bytes by names with slashes. Several processes may use it at once."""

    def put(self, name: str, content: bytes) -> None:
        """Store bytes: all or nothing, in the place of earlier ones of that name."""

    def get(self, name: str, *, most_bytes: int | None = None) -> bytes | None:
        """Return stored bytes, None if there are none, or more than that."""

    def upload_url(self, name: str, within: timedelta) -> str | None:
        """Return an address to which one may put bytes without a key; None if the place has none."""

    def delete(self, name: str) -> None:
        """Delete stored bytes, if they are there."""

    def every(self) -> Iterator[Blob]:
        """Yield all that is stored."""


class Folder:
    """Files below a folder.

    Args:
        path: Created with the first file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def put(self, name: str, content: bytes) -> None:
        """Store a file: written beside its place, then moved. It is on disk before a row can name it.

        Raise ``StorageUnavailable`` if it cannot be written.
        """
        path, unfinished = self.path / name, None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, unfinished = tempfile.mkstemp(dir=path.parent)
            with open(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(handle)
            os.replace(unfinished, path)
            for folder in (path.parent, self.path):
                _sync(folder)
        except OSError as error:
            if unfinished is not None:
                Path(unfinished).unlink(missing_ok=True)
            raise StorageUnavailable(f"{path} cannot be written: {error.strerror or error}") from error

    def get(self, name: str, *, most_bytes: int | None = None) -> bytes | None:
        """Return a file's content."""
        path = self.path / name
        try:
            return None if most_bytes is not None and path.stat().st_size > most_bytes else path.read_bytes()
        except OSError:
            return None

    def upload_url(self, name: str, within: timedelta) -> None:
        """Return None: the server takes what goes into a folder."""

    def delete(self, name: str) -> None:
        """Delete a file."""
        (self.path / name).unlink(missing_ok=True)

    def every(self) -> Iterator[Blob]:
        """Yield the files of all folders."""
        for path in self.path.glob("*/*"):
            try:
                found = path.stat()
            except FileNotFoundError:
                continue
            name = str(path.relative_to(self.path))
            yield Blob(name=name, nbytes=found.st_size, stored_at=datetime.fromtimestamp(found.st_mtime, UTC))


def _sync(folder: Path) -> None:
    """Make the names in a folder survive a loss of power."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Bucket:
    """Objects of a store of ``obstore``. Its methods raise ``StorageUnavailable`` where it cannot be reached.

    Args:
        store: The store, with the prefix of all names.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def put(self, name: str, content: bytes) -> None:
        """Store an object."""
        import obstore

        with _reaching():
            obstore.put(self._store, name, content)

    def get(self, name: str, *, most_bytes: int | None = None) -> bytes | None:
        """Return an object's content."""
        import obstore

        try:
            with _reaching():
                if most_bytes is not None and obstore.head(self._store, name)["size"] > most_bytes:
                    return None
                found: bytes = obstore.get(self._store, name).bytes().to_bytes()
        except FileNotFoundError:
            return None
        return found

    def upload_url(self, name: str, within: timedelta) -> str:
        """Return a signed address. It limits no size: look at that before the object is read."""
        import obstore

        signed: str = obstore.sign(self._store, "PUT", name, within)
        return signed

    def delete(self, name: str) -> None:
        """Delete an object."""
        import obstore

        with suppress(FileNotFoundError), _reaching():
            obstore.delete(self._store, name)

    def every(self) -> Iterator[Blob]:
        """Yield all objects."""
        import obstore

        with _reaching():
            for part in obstore.list(self._store):
                for each in part:
                    yield Blob(name=each["path"], nbytes=each["size"], stored_at=each["last_modified"])


@contextmanager
def _reaching() -> Iterator[None]:
    """A result waits for a store that cannot be reached, as it waits for the database."""
    from obstore.exceptions import BaseError

    try:
        yield
    except BaseError as error:
        raise StorageUnavailable(f"the store of files cannot be reached: {error}") from error


def opened(url: str | None, folder: Path) -> Blobs:
    """Return what ``files.url`` of the configuration names, a folder by default.

    A bucket's keys, region and endpoint come from the usual variables, such as ``AWS_ACCESS_KEY_ID``, ``AWS_REGION``
    and ``AWS_ENDPOINT``. Nothing is asked of it here.

    Raise ``ConfigError`` if it cannot be used.
    """
    if url is None:
        return Folder(folder)
    if not url.startswith(S3):
        raise ConfigError(f"files.url: {url!r} is no address of a bucket: expected s3://BUCKET/PREFIX")
    try:
        from obstore.store import from_url
    except ImportError as error:
        raise ConfigError("files.url needs obstore: pip install 'kernelcup[s3]'") from error
    plain = os.environ.get("AWS_ENDPOINT", "").startswith("http://")
    try:
        return Bucket(from_url(url, client_options={"allow_http": plain}, retry_config=RETRIES))
    except Exception as error:  # obstore's errors have no common class
        raise ConfigError(f"files.url: {error}") from error
