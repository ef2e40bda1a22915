"""What stands between a command and what it is about: proxies on the way, files as other programs save them."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from kernelcup.cli import exit_codes
from kernelcup.cli.entry import execute
from kernelcup.errors import InvalidValue, ServerUnavailable


@pytest.fixture
def closed() -> Iterator[str]:
    """Host and port of an address at which nothing listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@pytest.fixture(autouse=True)
def no_other_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the proxies of the machine that runs the tests."""
    for name in ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Run a command and return its exit code and its errors."""
    capsys.readouterr()
    return execute(words), capsys.readouterr().err


@pytest.mark.parametrize("scheme", ["socks5", "socks5h", "http"])
def test_a_proxy_that_does_not_answer_is_named_without_its_password(
    scheme: str, closed: str, capsys, monkeypatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", f"{scheme}://ada:secret@{closed}")
    code, text = told(capsys, "board", "list", "--server", "http://kc.example.org")
    assert code == exit_codes.of_error(ServerUnavailable(""))
    assert f"through the proxy {closed}" in text
    assert "name the server’s host in NO_PROXY" in text
    assert "secret" not in text


@pytest.mark.parametrize("proxy", ["foo://127.0.0.1:9", "socks4://127.0.0.1:9", "http://127.0.0.1:port"])
def test_an_address_that_is_no_proxys_is_refused_in_words(proxy: str, capsys, monkeypatch) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    code, text = told(capsys, "board", "list", "--server", "http://kc.example.org")
    assert code == exit_codes.of_error(InvalidValue(""))
    assert "Next: A proxy of the environment has an address that cannot be used." in text


def test_a_server_that_needs_no_proxy_is_not_said_to_be_behind_one(closed: str, capsys, monkeypatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert "proxy" not in told(capsys, "board", "list", "--server", f"http://{closed}")[1]


def test_files_as_other_programs_save_them_are_refused_with_the_way_out(capsys, tmp_path) -> None:
    (tmp_path / "wide.py").write_bytes("def custom_kernel(data): ...".encode("utf-16"))
    (tmp_path / "nb.ipynb").write_text('{"cells": []}')
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/submission.py").write_text("def custom_kernel(data): ...")
    (tmp_path / "folder/README.md").write_text("# Mine")
    for name, way in (("wide.py", "as UTF-8"), ("nb.ipynb", "nbconvert"), ("folder", "folder of their own")):
        code, text = told(capsys, "submit", str(tmp_path / name), "--local")
        assert code != 0
        assert way in text


def test_a_leaderboard_lists_the_packages_of_its_environment(capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("KERNELCUP_HOME", str(tmp_path))
    made = ("board", "create", "vectoradd", "--local", "--no-run", "--device", "emulated")
    assert told(capsys, *made)[0] == 0
    assert execute(["board", "show", "vectoradd", "--local"]) == 0
    assert "\npackages: numpy " in capsys.readouterr().out
