"""``admin user``, ``admin token`` and ``admin audit``."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path

import pytest
from test_cli_commands import Command, command, home
from test_cli_remote import ada, body_of, server
from test_cli_rules import Door, db_url, door, sign_in

from kernelcup.cli import wiring

__all__ = ["ada", "command", "db_url", "door", "home", "server", "sign_in"]


def test_a_user_is_made_with_a_token(door: Door) -> None:
    added = body_of(door("admin", "user", "add", "grace", "--role", "creator", "--json"))
    assert (added["name"], added["role"], added["identities"]) == ("grace", "creator", [])
    made = body_of(door("admin", "token", "create", "grace", "--name", "laptop", "--days", "2", "--json"))
    assert made["scopes"] == ["inspect", "manage", "read", "submit"]
    assert made["secret"].startswith("kc_")
    listed = door("admin", "token", "list", "grace")
    assert "laptop" in listed.out
    assert made["secret"] not in listed.out
    assert body_of(door("admin", "token", "revoke", str(made["id"]), "--json")) == {"revoked": made["id"]}
    assert body_of(door("admin", "token", "list", "grace", "--json")) == {"tokens": []}


def test_only_the_secret_goes_to_standard_output(command: Command) -> None:
    command("admin", "user", "add", "grace")
    ended = command("admin", "token", "create", "grace", "--scope", "read")
    assert ended.out.startswith("kc_")
    assert ended.out.count("\n") == 1
    assert "[read]" in ended.err


def test_users_are_changed_and_banned_and_the_log_tells(door: Door) -> None:
    door("admin", "user", "add", "eve")
    assert body_of(door("admin", "user", "role", "eve", "admin", "--json"))["role"] == "admin"
    assert "banned: spam" in door("admin", "user", "ban", "eve", "--reason", "spam").out
    assert body_of(door("admin", "user", "unban", "eve", "--json"))["banned_at"] is None
    found = body_of(door("admin", "user", "list", "--query", "ev", "--json"))["users"]
    assert [each["name"] for each in found] == ["eve"]
    assert door("admin", "user", "list", "--query", "x").out.count("\n") == 1  # the headings
    head, eve = door("admin", "user", "list", "--query", "ev").out.splitlines()
    assert head.split() == ["id", "name", "role", "signs", "in", "as", "banned"]
    assert eve.split()[1:] == ["eve", "admin"]
    log = body_of(door("admin", "audit", "--target", "user:eve", "--json"))["audit"]
    assert [each["action"] for each in log] == ["user.unban", "user.ban", "user.role", "user.create"]
    older = body_of(door("admin", "audit", "--before", str(log[1]["id"]), "--limit", "1", "--json"))
    assert [each["id"] for each in older["audit"]] == [log[2]["id"]]
    assert "  user.ban  user:eve" in door("admin", "audit", "--action", "user.ban").out


def test_a_shown_name_is_set_and_taken_away(door: Door) -> None:
    door("admin", "user", "add", "eve")
    shown = body_of(door("account", "shown-name", "eve", "Eve the \u2764\ufe0f", "--json"))
    assert (shown["name"], shown["shown_name"]) == ("eve", "Eve the \u2764\ufe0f")
    assert "eve (Eve the \u2764\ufe0f)" in door("admin", "user", "list", "--query", "ev").out
    assert door("account", "shown-name", "eve", "a\u202eb").code == 3
    assert "(" not in door("account", "shown-name", "eve").out


def test_the_operator_signs_in_as_admin_on_an_empty_server(command: Command) -> None:
    ended = command("admin", "user", "link")
    user, _, url = ended.out.strip().partition(",")
    assert user == "admin"
    assert url.startswith("http://127.0.0.1:8000/auth/link/kc_")
    assert command("admin", "user", "list", "--json").body["users"][0]["role"] == "admin"


@pytest.mark.parametrize(
    ("listens_at", "link"),
    [("http://0.0.0.0:8123", "http://127.0.0.1:8123/"), ("http://[::]:8123", "http://[::1]:8123/")],
)
def test_without_a_url_a_server_on_every_address_says_that_its_links_are_for_this_machine(
    command: Command, home: Path, listens_at: str, link: str
) -> None:
    with wiring.saying_address(wiring.load_config(None), listens_at):
        ended = command("admin", "user", "link")
    assert ended.out.partition(",")[2].startswith(link)
    assert f"server.url is not set: links begin with {link[:-1]}, which only this machine" in ended.err
    (home / "kernelcup.toml").write_text('[server]\nhost = "0.0.0.0"\nurl = "https://cup.example.org"\n')
    ended = command("admin", "user", "link")
    assert ended.out.partition(",")[2].startswith("https://cup.example.org/")
    assert "server.url" not in ended.err


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
    command("board", "create", "vectoradd", "--device", "emulated", "--name", "week1", "--members-only")
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


def test_an_account_is_exported_to_a_new_file_and_deleted_by_its_name(door: Door) -> None:
    door("admin", "user", "add", "eve")
    file = Path("eve.zip")
    ended = door("account", "export", "eve", "--json")
    assert ended.code == 0, ended
    told = body_of(ended)
    assert told == {"file": "eve.zip", "bytes": file.stat().st_size}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with zipfile.ZipFile(file) as archive:
        assert archive.namelist() == ["account.json"]
    again = door("account", "export", "eve")
    assert (again.code, "eve.zip is there already; nothing was written" in again.err) == (3, True)
    refused = door("account", "delete", "eve", "--confirm", "ada")
    assert (refused.code, "Confirm with the user's name 'eve'; nothing was deleted." in refused.err) == (
        3,
        True,
    )
    deleted = body_of(door("account", "delete", "eve", "--confirm", "eve", "--submissions", "--json"))
    assert deleted["deleted"] == "eve"
    file.unlink()
    assert door("account", "export", "eve").code == 3
    assert not file.exists()
    assert door("account", "export", deleted["pseudonym"]).out.startswith(f"{deleted['pseudonym']}.zip: ")
    log = body_of(door("admin", "audit", "--action", "user.delete", "--json"))["audit"]
    assert [each["target"] for each in log] == [f"user:{deleted['pseudonym']}"]


def test_a_user_deletes_the_own_account_at_a_server(command: Command, ada: str) -> None:
    assert command("account", "delete", "ada").code == 2
    deleted = command("account", "delete", "ada", "--confirm", "ada")
    assert deleted.out.startswith("the account is deleted; its results stay as deleted-")
    gone = command("whoami")
    assert (gone.code, "sign_in_needed" in gone.err) == (3, True)
