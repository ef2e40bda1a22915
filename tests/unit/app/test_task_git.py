from __future__ import annotations

import gc
import hashlib
import os
import socket
import stat
import struct
import threading
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from wsgiref.simple_server import make_server

import pytest
from dulwich.objects import Blob, Commit, Tree
from dulwich.repo import Repo
from dulwich.server import DictBackend
from dulwich.web import WSGIRequestHandlerLogger, WSGIServerLogger, make_wsgi_chain
from repositories import AUTHOR, repository

from builders import make_actor
from kernelcup.app.boards import git_source
from kernelcup.app.boards.git_source import fetch_here, fetch_problems
from kernelcup.domain import NOBODY, OPERATOR, Role
from kernelcup.errors import InvalidValue, NotFound


def odd_repository(folder: Path, entries: list[tuple[bytes, int, bytes]]) -> str:
    """Make a repository whose ``problems`` has entries that git would not add."""
    with Repo.init_bare(str(folder), mkdir=True, default_branch=b"main") as repo:
        store, below, root, commit = repo.object_store, Tree(), Tree(), Commit()
        store.loose_compression_level = 1
        for name, mode, content in entries:
            blob = Blob.from_string(content)
            store.add_object(blob)
            below.add(name, mode, blob.id)
        root.add(b"problems", stat.S_IFDIR, below.id)
        commit.tree, commit.author, commit.committer = root.id, AUTHOR, AUTHOR
        commit.author_time = commit.commit_time = 0
        commit.author_timezone = commit.commit_timezone = 0
        commit.message = b"odd"
        for made in (below, root, commit):
            store.add_object(made)
        repo.refs[b"refs/heads/main"] = commit.id
    return str(folder)


def found(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_the_files_below_problems_are_fetched(tmp_path) -> None:
    source = repository(
        tmp_path / "src", {"README.md": "x", "problems/a.yaml": "a", "problems/x/task.yml": "t"}
    )
    commit = fetch_problems(OPERATOR, source, "main", tmp_path / "out")
    assert len(commit) == 40
    assert found(tmp_path / "out") == {"a.yaml": "a", "x/task.yml": "t"}


def test_a_repository_without_that_folder_is_fetched_whole(tmp_path) -> None:
    source = repository(tmp_path / "src", {"a.yaml": "a"})
    fetch_problems(OPERATOR, source, "main", tmp_path / "out")
    assert found(tmp_path / "out") == {"a.yaml": "a"}


def test_a_branch_may_have_slashes(tmp_path) -> None:
    source = repository(tmp_path / "src", {"a.yaml": "a"}, branch="feature/new-set")
    fetch_problems(OPERATOR, source, "feature/new-set", tmp_path / "out")
    assert found(tmp_path / "out") == {"a.yaml": "a"}


def test_only_the_newest_commit_comes(tmp_path) -> None:
    source = repository(tmp_path / "src", {"a.yaml": "old secret"})
    repository(tmp_path / "src", {"a.yaml": "new"})
    fetch_problems(OPERATOR, source, "main", tmp_path / "out")
    assert found(tmp_path / "out") == {"a.yaml": "new"}


def test_links_submodules_and_odd_names_are_left_out(tmp_path) -> None:
    entries = [
        (b"good.yaml", stat.S_IFREG | 0o644, b"good"),
        (b"run.sh", stat.S_IFREG | 0o755, b"run"),
        (b"link", stat.S_IFLNK, b"/etc/passwd"),
        (b"sub", 0o160000, b"module"),
        (b"..", stat.S_IFREG | 0o644, b"up"),
        (b".git", stat.S_IFREG | 0o644, b"git"),
        (b"a\\b", stat.S_IFREG | 0o644, b"back"),
        (b"\xff", stat.S_IFREG | 0o644, b"latin"),
    ]
    source = odd_repository(tmp_path / "odd", entries)
    fetch_problems(OPERATOR, source, "main", tmp_path / "out")
    assert found(tmp_path / "out") == {"good.yaml": "good", "run.sh": "run"}
    assert sorted(os.listdir(tmp_path)) == ["odd", "out", "out.git"]


def test_an_unknown_branch_is_not_found(tmp_path) -> None:
    source = repository(tmp_path / "src", {"a.yaml": "a"})
    with pytest.raises(NotFound, match="no branch 'dev'"):
        fetch_problems(OPERATOR, source, "dev", tmp_path / "out")


def test_what_is_no_repository_is_said_to_be_none(tmp_path) -> None:
    with pytest.raises(InvalidValue, match="cannot be fetched"):
        fetch_problems(OPERATOR, str(tmp_path / "nothing"), "main", tmp_path / "out")


def test_a_large_repository_is_refused(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = repository(tmp_path / "src", {"a.yaml": "a" * 1000})
    monkeypatch.setattr(git_source, "MAX_BYTES", 100)
    with pytest.raises(InvalidValue, match="larger than"):
        fetch_here(source, "main", tmp_path / "out")


def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = repository(tmp_path / "src", {"a.yaml": "a" * 100_000})
    monkeypatch.setattr(git_source, "MAX_BYTES", 10_000)
    with pytest.raises(InvalidValue, match="it has more than"):
        fetch_here(source, "main", tmp_path / "out")


@pytest.mark.parametrize(
    "branch",
    ["", "-x", "--upload-pack=x", "a b", "a\nb", "a\0", "../x", "a..b", "/a", "a/", "a//b", "a@{1}", "é?"],
)
def test_names_that_no_branch_has_are_refused(tmp_path, branch: str) -> None:
    with pytest.raises(InvalidValue, match="is not a valid branch name"):
        fetch_problems(OPERATOR, "https://example.org/x", branch, tmp_path / "out")


@pytest.mark.parametrize(
    "url",
    [
        *(
            "http://example.org/x",
            "git://example.org/x",
            "ssh://git@example.org/x",
            "file:///etc",
            "ext::sh -c id",
        ),
        *(
            "https://",
            "https://user:secret@example.org/x",
            "https://example.org/x?y",
            "https://example.org:x/",
        ),
    ],
)
def test_only_plain_https_urls_are_asked(tmp_path, url: str) -> None:
    for actor in (OPERATOR, NOBODY):
        with pytest.raises(InvalidValue) as caught:
            fetch_problems(actor, url, "main", tmp_path / "out")
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize("repository", ["/srv/repo", "repo", "~/repo", "https://example.org:8443/x"])
def test_paths_and_ports_are_for_the_operator_only(db, tmp_path, repository: str) -> None:
    git_source.check_repository(OPERATOR, repository)
    with pytest.raises(InvalidValue):
        fetch_problems(make_actor(db, "root", Role.ADMIN), repository, "main", tmp_path / "out")


@pytest.mark.parametrize(
    ("addresses", "told"),
    [
        (None, "finds no address for the host example.org"),
        ([], "finds no address for the host example.org"),
        (["10.0.0.1"], "not a host on the public internet"),
        (["93.184.215.14", "::1"], "not a host on the public internet"),
    ],
)
def test_a_host_without_an_address_is_not_called_private(db, addresses: list[str] | None, told: str) -> None:
    def resolve(*_args: object, **_options: object) -> list[tuple[object, ...]]:
        if addresses is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(0, 0, 0, "", (address, 443)) for address in addresses]

    root = make_actor(db, "root", Role.ADMIN)
    with pytest.raises(InvalidValue, match=told):
        git_source.check_repository(root, "https://example.org/x", resolve=resolve)


@pytest.fixture
def served(tmp_path) -> Iterator[str]:
    """A repository on a loopback HTTP server; returns its URL."""
    source = repository(tmp_path / "src", {"problems/a.yaml": "a", "problems/b.yaml": "b" * 5000})
    with Repo(source) as repo:
        app = make_wsgi_chain(DictBackend({"/set": repo}))
        server = make_server(
            "127.0.0.1", 0, app, handler_class=WSGIRequestHandlerLogger, server_class=WSGIServerLogger
        )
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_repository_is_fetched_over_the_network(served, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_source, "check_repository", lambda *_: [])
    fetch_problems(OPERATOR, f"{served}/set", "main", tmp_path / "out")
    assert found(tmp_path / "out") == {"a.yaml": "a", "b.yaml": "b" * 5000}
    with pytest.raises(InvalidValue, match="cannot be fetched"):
        fetch_problems(OPERATOR, f"{served}/other", "main", tmp_path / "out2")


def test_a_repositorys_host_is_resolved_once(served, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of this host is in no name server: the fetch goes to the address that was checked."""
    monkeypatch.setattr(git_source, "check_repository", lambda *_: ["127.0.0.1"])
    url = served.replace("127.0.0.1", "kernelcup.invalid")
    fetch_problems(OPERATOR, f"{url}/set", "main", tmp_path / "out")
    assert found(tmp_path / "out") == {"a.yaml": "a", "b.yaml": "b" * 5000}


class Liar:
    """A server that names a commit and sends something else."""

    def __init__(self, pack: bytes) -> None:
        self.pack = pack

    def fetch_pack(
        self, _path: str, pick: Callable[..., object], _walker: object, write: Any, **_: object
    ) -> None:
        pick({b"refs/heads/main": b"1" * 40})
        write(self.pack)


def pack_of(*objects: bytes) -> bytes:
    body = b"PACK" + struct.pack(">II", 2, len(objects)) + b"".join(objects)
    return body + hashlib.sha1(body).digest()


@pytest.mark.parametrize(
    "pack",
    [
        b"nonsense",
        pack_of(),
        pack_of(b"\x31garbage"),
        pack_of(b"\x70" + b"\x01" * 20 + zlib.compress(b"delta without its base")),
        pack_of(b"\x35" + zlib.compress(b"a blob")),
        pack_of(b"\x35" + zlib.compress(b"short"))[:-4],
        pack_of(b"\x00" + zlib.compress(b"")),
    ],
)
def test_what_a_broken_server_sends_is_refused(
    tmp_path, monkeypatch: pytest.MonkeyPatch, pack: bytes
) -> None:
    monkeypatch.setattr(git_source, "_client", lambda *_: (Liar(pack), "/"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # dulwich leaves files of broken packs open
        with pytest.raises(InvalidValue, match="cannot be fetched"):
            fetch_here("https://example.org/x", "main", tmp_path / "out")
        gc.collect()


@pytest.mark.dear("a file that does not fit into the memory of a process has to be made")
def test_what_unpacks_to_more_memory_than_a_sync_may_have_is_refused(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [(b"a.yaml", stat.S_IFREG | 0o644, bytes(160 << 20))]
    source = odd_repository(tmp_path / "src", entries)
    monkeypatch.setattr(git_source, "MEMORY_BYTES", 300 << 20, raising=False)
    with pytest.raises(InvalidValue, match="cannot be fetched"):
        fetch_problems(OPERATOR, source, "main", tmp_path / "out")


def test_a_server_that_says_nothing_is_not_waited_for(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_source, "check_repository", lambda *_: [])
    monkeypatch.setattr(git_source, "LIMIT_S", 0.5, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/set"
        with pytest.raises(InvalidValue, match=r"longer than 0\.5 s"):
            fetch_problems(OPERATOR, url, "main", tmp_path / "out")
