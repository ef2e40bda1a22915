"""Fetch the problem sets of a git repository, as plain files only.

Files are read from the repository's objects, because others wrote them: no checkout, no hooks, no links, no
submodules, no credentials.
"""

from __future__ import annotations

import json
import resource
import socket
import stat
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import urllib3
from dulwich.client import (
    GitClient,
    HTTPProxyUnauthorized,
    HTTPUnauthorized,
    LocalGitClient,
    Urllib3HttpGitClient,
    default_user_agent_string,
)
from dulwich.errors import (
    ApplyDeltaError,
    ChecksumMismatch,
    FileFormatException,
    GitProtocolError,
    NotGitRepository,
    WrongObjectException,
)
from dulwich.object_store import BaseObjectStore, ObjectStoreGraphWalker
from dulwich.objects import Blob, Commit, ObjectID, Tree
from dulwich.refs import Ref
from dulwich.repo import Repo

from kernelcup.app import access
from kernelcup.app.outgoing import Resolve, addresses_of
from kernelcup.domain import Actor
from kernelcup.errors import InvalidValue, NotFound
from kernelcup.tasks.manifest.size_limits import MAX_FILE_BYTES, MIB

FOLDER = "problems"
MAX_BYTES = 200 * MIB
MAX_FILES = 20_000
MAX_DEPTH = 20
SILENCE_S = 30.0
WHOLE_S = 120.0
LIMIT_S = 150.0
"""The limit for the whole fetch, including name resolution and unpacking."""
CPU_S = 60
MEMORY_BYTES = 1024 * MIB
"""A repository of usual size takes some 100 MiB; a hostile one can unpack a few bytes to gigabytes."""

# All errors that dulwich raises for missing, broken or hostile repositories and for network failures.
GIT_FAILURES = (
    GitProtocolError,
    NotGitRepository,
    HTTPUnauthorized,
    HTTPProxyUnauthorized,
    ApplyDeltaError,
    ChecksumMismatch,
    FileFormatException,
    WrongObjectException,
    urllib3.exceptions.HTTPError,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    ValueError,
    TypeError,
    LookupError,
    AssertionError,
    BufferError,
)


def fetch_problems(actor: Actor, repository: str, branch: str, into: Path) -> str:
    """Write the files below ``problems`` of a branch's newest commit to ``into`` and return the commit.

    If the repository has no folder ``problems``, all its files are written.

    Args:
        actor: Only the operator may name a path of this machine instead of an https URL.
        repository: The repository's URL or path.
        branch: The name of the branch; it may contain slashes.
        into: An empty folder; the repository's objects are kept beside it.

    Raises:
        InvalidValue: The URL or the branch name is invalid, or the repository cannot be fetched.
        NotFound: The branch does not exist.
    """
    check_branch(branch)
    addresses = check_repository(actor, repository)
    request = {
        "addresses": addresses,
        "repository": repository,
        "branch": branch,
        "into": str(into),
        "memory_bytes": MEMORY_BYTES,
    }
    command = [sys.executable, "-P", "-m", __name__, json.dumps(request)]
    text = ""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        answer = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        text = f"it took longer than {LIMIT_S:g} s"
    except (OSError, ValueError):
        text = "it exceeded the limits of memory or time"
    if text:
        raise InvalidValue(f"Repository {repository!r} cannot be fetched: {text}")
    if "missing" in answer:
        raise NotFound(answer["missing"])
    if "error" in answer:
        raise InvalidValue(answer["error"])
    return str(answer["commit"])


def main(request: str) -> None:
    """Fetch within limits of memory and time; this process reads the untrusted repository."""
    given = json.loads(request)
    resource.setrlimit(resource.RLIMIT_AS, (given["memory_bytes"], given["memory_bytes"]))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * MAX_BYTES, 2 * MAX_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if given["addresses"]:
        host = urlsplit(given["repository"]).hostname or ""
        socket.getaddrinfo = pinned(host, given["addresses"], socket.getaddrinfo)  # type: ignore[assignment]
    try:
        answer = {"commit": fetch_here(given["repository"], given["branch"], Path(given["into"]))}
    except NotFound as error:
        answer = {"missing": str(error)}
    except InvalidValue as error:
        answer = {"error": str(error)}
    sys.stdout.write(json.dumps(answer))


def fetch_here(repository: str, branch: str, into: Path) -> str:
    """Fetch in this process; see ``fetch_problems``, which has checked the address."""
    client, path = _client(repository)
    with Repo.init_bare(into.parent / f"{into.name}.git", mkdir=True) as store:
        try:
            commit = _fetch(client, path, store, branch)
            _write(store.object_store, commit, into)
        except GIT_FAILURES as error:
            text = str(error) or type(error).__name__
            raise InvalidValue(f"Repository {repository!r} cannot be fetched: {text[:300]}") from error
    return commit.decode()


def pinned(host: str, addresses: Sequence[str], resolve: Resolve) -> Resolve:
    """Return what resolves a host to checked addresses: its name server could give others the second time."""

    def lookup(name: Any, port: Any, *args: Any, **options: Any) -> list[tuple[Any, ...]]:
        names = addresses if str(name).lower() == host.lower() else [name]
        return [each for address in names for each in resolve(address, port, *args, **options)]

    return lookup


def check_branch(branch: str) -> None:
    """Raise ``InvalidValue`` if a branch cannot have this name."""
    odd = not branch.isprintable() or any(character in " ~^:?*[\\" for character in branch)
    parts = branch.split("/")
    odd_part = any(part in ("", ".") or part.startswith(".") or part.endswith(".lock") for part in parts)
    if odd or odd_part or ".." in branch or "@{" in branch or branch.startswith("-") or len(branch) > 200:
        raise InvalidValue(f"{branch!r} is not a valid branch name.")


def check_repository(actor: Actor, repository: str, *, resolve: Resolve = socket.getaddrinfo) -> list[str]:
    """Return the addresses that a repository may be fetched from; none means any, for the operator.

    Raise ``InvalidValue`` if the actor may not fetch from it, or its host does not exist.
    """
    operator = access.is_operator(actor)
    if operator and "://" not in repository:
        return []
    try:
        url = urlsplit(repository)
        plain = url.port is None or operator
    except ValueError:
        raise InvalidValue(f"Repository {repository!r} is not a URL.") from None
    if url.scheme != "https" or not url.hostname or not repository.isprintable():
        allowed = "an https URL, or a path of this machine" if operator else "an https URL"
        raise InvalidValue(f"Repository {repository!r}: expected {allowed}.")
    if url.username or url.password or not plain or url.query or url.fragment:
        raise InvalidValue("The repository's URL may have no user, password, port, query or fragment.")
    if operator:
        return []
    return addresses_of(url.hostname, 443, what=f"Repository {repository!r}", resolve=resolve)


def _client(repository: str) -> tuple[GitClient, str]:
    if "://" not in repository:
        return LocalGitClient(), repository
    url = urlsplit(repository)
    base = f"{url.scheme}://{url.netloc}"
    client = Urllib3HttpGitClient(base, pool_manager=_pools(), timeout=SILENCE_S, quiet=True)
    return client, url.path


def _pools() -> urllib3.PoolManager:
    """Return connections that follow no redirects, which could lead to an unchecked address."""
    retries = urllib3.Retry(2, redirect=0)
    headers = {"User-agent": default_user_agent_string()}
    proxy = getproxies().get("https")
    if proxy is None:
        return urllib3.PoolManager(retries=retries, headers=headers)
    return urllib3.ProxyManager(proxy, retries=retries, headers=headers)


def _fetch(client: GitClient, path: str, store: Repo, branch: str) -> ObjectID:
    wanted = Ref(f"refs/heads/{branch}".encode())
    found: list[ObjectID] = []

    def pick(refs: Mapping[Ref, ObjectID], depth: int | None = None) -> list[ObjectID]:
        del depth  # part of the signature
        head = refs.get(wanted)
        if head is None:
            raise NotFound(f"The repository has no branch {branch!r}.")
        found[:] = [head]
        return found

    file, commit, abort = store.object_store.add_pack()
    walker = ObjectStoreGraphWalker([], lambda _: [])
    try:
        client.fetch_pack(path, pick, walker, _limited(file.write), progress=_nothing, depth=1)
    except BaseException:
        abort()
        raise
    with file:  # a failing commit leaves it open
        commit()
    return found[0]


def _nothing(_text: bytes) -> None:
    """Discard a server's progress messages."""


def _limited(write: Callable[[bytes], int]) -> Callable[[bytes], int]:
    """Return a writer that raises once the data are too large or take too long."""
    total = 0
    end = time.monotonic() + WHOLE_S

    def count(chunk: bytes) -> int:
        nonlocal total
        total += len(chunk)
        if total > MAX_BYTES:
            raise InvalidValue(f"The repository is larger than {MAX_BYTES // MIB} MiB.")
        if time.monotonic() > end:
            raise InvalidValue(f"Fetching the repository took longer than {WHOLE_S:.0f} s.")
        return write(chunk)

    return count


def _write(store: BaseObjectStore, commit_id: ObjectID, into: Path) -> None:
    commit = store[commit_id]
    if not isinstance(commit, Commit):
        raise ValueError("the branch is at no commit")
    root = store[commit.tree]
    below = _folder(store, root)
    into.mkdir(exist_ok=True)
    count, total = 0, 0
    for path, content in _files(store, below):
        count, total = count + 1, total + len(content)
        if count > MAX_FILES or total > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_FILES} files or {MAX_BYTES // MIB} MiB")
        place = into / path
        place.parent.mkdir(parents=True, exist_ok=True)
        # One byte too many is enough for the loader to report that the file is too large.
        place.write_bytes(content[: MAX_FILE_BYTES + 1])


def _folder(store: BaseObjectStore, root: object) -> Tree:
    if not isinstance(root, Tree):
        raise ValueError("the commit has no files")
    if FOLDER.encode() in root:
        mode, entry_id = root[FOLDER.encode()]
        below = store[entry_id] if stat.S_ISDIR(mode) else None
        if isinstance(below, Tree):
            return below
    return root


def _files(
    store: BaseObjectStore, tree: Tree, prefix: str = "", depth: int = 0
) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of all regular files; links and submodules are left out."""
    if depth > MAX_DEPTH:
        raise ValueError(f"folders are nested more than {MAX_DEPTH} deep")
    for entry in tree.iteritems():
        name = _plain_name(entry.path)
        if name is None:
            continue
        if stat.S_ISDIR(entry.mode):
            below = store[entry.sha]
            if isinstance(below, Tree):
                yield from _files(store, below, f"{prefix}{name}/", depth + 1)
        elif stat.S_ISREG(entry.mode):
            blob = store[entry.sha]
            if isinstance(blob, Blob):
                yield f"{prefix}{name}", blob.as_raw_string()


def _plain_name(raw: bytes) -> str | None:
    """Return a file's name, None for a name that no task can use."""
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        return None
    odd = not name.isprintable() or "/" in name or "\\" in name or len(raw) > 255
    return None if odd or name in ("", ".", "..") or name.lower() == ".git" else name


if __name__ == "__main__":
    main(sys.argv[1])
