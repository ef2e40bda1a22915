"""Webhooks, at both doors."""

from __future__ import annotations

import re

from test_cli_commands import command, home
from test_cli_remote import body_of, server
from test_cli_rules import Door, board, db_url, door, sign_in

from builders import NOW
from kernelcup.engine.database import Database
from kernelcup.tables import WebhookRow

__all__ = ["board", "command", "db_url", "door", "home", "server", "sign_in"]

URL = "https://93.184.215.14/hook"


def test_a_webhook_is_added_listed_and_removed(door: Door, board: str) -> None:
    made = door("board", "webhook", "add", board, URL)
    assert re.search(r"secret, shown only once: whsec_\S{44}\n", made.out)
    assert door("board", "webhook", "list", board).out == f"1  {URL}  not used yet\n"
    (shown,) = body_of(door("board", "webhook", "list", board, "--json"))["webhooks"]
    assert (shown["url"], shown["leaderboard"], "secret" in shown) == (URL, board, False)
    assert door("board", "webhook", "remove", board, "1").out == "webhook 1 is removed\n"
    assert "has no webhook. Next: kernelcup board webhook add" in door("board", "webhook", "list", board).out
    again = door("board", "webhook", "remove", board, "1")
    assert (again.code, "has no webhook 1" in again.err) == (3, True)


def test_a_disabled_webhook_says_so_until_it_is_enabled(door: Door, board: str, db: Database) -> None:
    body = body_of(door("board", "webhook", "add", board, URL, "--json"))
    assert body["secret"].startswith("whsec_")
    with db.write() as session:
        row = session.get_one(WebhookRow, 1)
        row.failures, row.last_error, row.disabled_at = 10, "it answered 500", NOW
    told = door("board", "webhook", "list", board).out
    assert "disabled since 2026-06-01 12:00 UTC after 10 failures, the last: it answered 500" in told
    assert door("board", "webhook", "enable", board, "1").out == "webhook 1 is in use again\n"
    assert "not used yet" in door("board", "webhook", "list", board).out
