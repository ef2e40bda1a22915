"""``admin user``, ``admin token`` and ``admin audit``."""

from __future__ import annotations

import pytest
from test_cli_commands import Command, command, home

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


@pytest.mark.parametrize(
    ("words", "told"),
    [
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
