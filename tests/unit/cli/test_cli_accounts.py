"""``admin user``, ``admin token`` and ``admin audit``."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_cli_commands import Command, command, home

from kernelcup.cli import wiring

__all__ = ["command", "home"]


def test_the_operator_makes_a_user_and_a_token_for_them(command: Command) -> None:
    added = command("admin", "user", "add", "grace", "--role", "creator", "--json").body
    assert (added["name"], added["role"], added["identities"]) == ("grace", "creator", [])
    made = command("admin", "token", "create", "grace", "--name", "laptop", "--days", "2", "--json").body
    assert made["scopes"] == ["inspect", "manage", "read", "submit"]
    assert made["secret"].startswith("kc_")
    listed = command("admin", "token", "list", "grace")
    assert "laptop" in listed.out
    assert made["secret"] not in listed.out
    assert command("admin", "token", "revoke", str(made["id"]), "--json").body == {"revoked": made["id"]}
    assert command("admin", "token", "list", "grace", "--json").body == {"tokens": []}


def test_only_the_secret_goes_to_standard_output(command: Command) -> None:
    command("admin", "user", "add", "grace")
    ended = command("admin", "token", "create", "grace", "--scope", "read")
    assert ended.out.startswith("kc_")
    assert ended.out.count("\n") == 1
    assert "[read]" in ended.err


def test_the_operator_changes_and_bans_users_and_the_log_tells(command: Command) -> None:
    command("admin", "user", "add", "eve")
    assert command("admin", "user", "role", "eve", "admin", "--json").body["role"] == "admin"
    assert "banned: spam" in command("admin", "user", "ban", "eve", "--reason", "spam").out
    assert command("admin", "user", "unban", "eve", "--json").body["banned_at"] is None
    assert [
        each["name"] for each in command("admin", "user", "list", "--query", "ev", "--json").body["users"]
    ] == ["eve"]
    assert command("admin", "user", "list", "--query", "x").out.count("\n") == 1  # the headings
    head, eve = command("admin", "user", "list", "--query", "ev").out.splitlines()
    assert head.split() == ["id", "name", "role", "signs", "in", "as", "banned"]
    assert eve.split()[1:] == ["eve", "admin"]
    log = command("admin", "audit", "--target", "user:eve", "--json").body["audit"]
    assert [each["action"] for each in log] == ["user.unban", "user.ban", "user.role", "user.create"]
    assert "operator  user.ban  user:eve" in command("admin", "audit", "--action", "user.ban").out


def test_the_operator_signs_in_as_admin_on_an_empty_server(command: Command) -> None:
    ended = command("admin", "user", "link")
    user, _, url = ended.out.strip().partition(",")
    assert user == "admin"
    assert url.startswith("http://127.0.0.1:8000/auth/link/kc_")
    assert command("admin", "user", "list", "--json").body["users"][0]["role"] == "admin"


def test_a_link_leads_to_the_port_at_which_the_server_listens(command: Command, home: Path) -> None:
    settings = wiring.load_config(None)
    with wiring.saying_address(settings, "http://127.0.0.1:8123"):
        assert (
            command("admin", "user", "link").out.partition(",")[2].startswith("http://127.0.0.1:8123/auth/")
        )
    assert command("admin", "user", "link").out.partition(",")[2].startswith("http://127.0.0.1:8000/auth/")


def test_a_server_says_its_own_address_only(command: Command, home: Path) -> None:
    settings = wiring.load_config(None)
    with wiring.saying_address(settings, "http://127.0.0.1:8123"):
        with wiring.saying_address(settings, "http://127.0.0.1:8124"):
            pass
        (settings.data_dir / wiring.ADDRESS).write_text("http://127.0.0.1:8125")
    assert wiring.address_of(settings) == "http://127.0.0.1:8125"
    (settings.data_dir / wiring.ADDRESS).unlink()
    (settings.data_dir / wiring.ADDRESS).mkdir()
    with wiring.saying_address(settings, "http://127.0.0.1:8123"):
        assert wiring.address_of(settings) == "http://127.0.0.1:8000"


def test_a_class_gets_links_that_no_list_shows_again(command: Command, tmp_path: Path) -> None:
    command("board", "create", "vectoradd", "--device", "emulated", "--name", "week1", "--closed")
    (tmp_path / "class.csv").write_text("user,pseudonym\nzoe,fox\nbob,\n")
    words = ("--list", str(tmp_path / "class.csv"), "--create", "--board", "week1", "--hours", "2")
    made = command("admin", "user", "link", *words, "--json").body["links"]
    assert [(each["user"], each["is_new_user"]) for each in made] == [("zoe", True), ("bob", True)]
    assert all(each["url"].endswith("?next=%2Fb%2Fweek1") for each in made)
    listed = command("admin", "user", "links")
    assert "zoe  until" in listed.out
    assert "kc_" not in listed.out
    members = command("admin", "members", "list", "week1", "--json").body["members"]
    assert {each["user"]: each["pseudonym"] for each in members} == {"zoe": "fox", "bob": None}
    assert command("admin", "user", "revoke-link", "bob", "--json").body == {"revoked": "bob"}
    assert [each["user"] for each in command("admin", "user", "links", "--json").body["links"]] == ["zoe"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("admin", "user", "link", "zoe"), "There is no user 'zoe'."),
        (("admin", "user", "link", "zoe"), "with --create"),
        (("admin", "user", "link", "--list", "nowhere.csv"), "nowhere.csv: No such file"),
        (("admin", "user", "revoke-link", "eve"), "no open sign-in link for 'eve'"),
        (("admin", "user", "add", "x", "--role", "king"), "participant, creator or admin"),
        (("admin", "user", "ban", "nobody-there", "--reason", "x"), "no user"),
        (("admin", "token", "create", "eve", "--scope", "fly"), "read, submit, inspect, manage"),
        (("admin", "token", "create", "eve", "--scope", "admin"), "whose tokens cannot have"),
        (("admin", "token", "revoke", "7"), "no token 7"),
    ],
)
def test_what_cannot_be_is_said(command: Command, words: tuple[str, ...], told: str) -> None:
    command("admin", "user", "add", "eve")
    ended = command(*words)
    assert ended.code == 3
    assert told in ended.err
