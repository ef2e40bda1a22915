"""Webhooks of a leaderboard: its creator and admins register them."""

from __future__ import annotations

import base64
import secrets
import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from ipaddress import ip_address
from typing import Annotated
from urllib.parse import SplitResult, urlsplit

from kernelcup.app.boards.boards import check_manages, find_managed
from kernelcup.app.boards.queries import boards
from kernelcup.app.news.queries import webhooks
from kernelcup.app.operation import Board, Given, operation
from kernelcup.app.outgoing import Network, Resolve, addresses_of, is_inside
from kernelcup.app.people.queries import audit_log
from kernelcup.domain import Actor, Leaderboard
from kernelcup.domain.answers import Webhook
from kernelcup.engine import Database, Session
from kernelcup.errors import Conflict, InvalidValue, NotFound

MOST_OF_BOARD = 10
LONGEST_URL = 500
SECRET_PREFIX = "whsec_"
SECRET_BYTES = 32
PORTS = {"https": 443, "http": 80}


Number = Annotated[int, Given(metavar="ID", least=1, help="As `list` shows it.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class NewWebhook(Webhook):
    """A new webhook."""

    secret: str
    """It verifies messages, and is shown only once."""


@operation("GET", "/leaderboards/{name}/webhooks", "board webhook list", subject="news", is_paged=True)
def list_webhooks(db: Database, actor: Actor, board: Board) -> list[Webhook]:
    """List the webhooks of a leaderboard, and whether they work."""
    with db.read() as session:
        return webhooks.of_board(session, find_managed(session, board, actor).id)


@operation("POST", "/leaderboards/{name}/webhooks", "board webhook add", subject="news", status=201)
def add_webhook(
    db: Database,
    actor: Actor,
    board: Board,
    url: Annotated[
        str, Given(metavar="URL", longest=LONGEST_URL, help="An https address of the public internet.")
    ],
    *,
    now: datetime,
    own_networks: Sequence[Network] = (),
    resolve: Resolve = socket.getaddrinfo,
) -> NewWebhook:
    """Register a webhook. The secret that verifies its messages is shown only once.

    Raises:
        NotFound, SignInNeeded, Forbidden, ScopeMissing: The actor does not manage the leaderboard.
        InvalidValue: The URL cannot be used, or its host is not on the public internet.
        Conflict: The leaderboard has the maximum number of webhooks, or already has this one.
    """
    check_manages(db, actor, board)
    check_address(url, own_networks=own_networks, resolve=resolve)
    secret = SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
    with db.write(durable=True) as session:
        boards.lock(session, board)
        found = find_managed(session, board, actor)
        known = webhooks.of_board(session, found.id)
        if len(known) >= MOST_OF_BOARD:
            raise Conflict(f"Leaderboard {found.name!r} has {len(known)} webhooks already; remove one first.")
        if any(each.url == url for each in known):
            raise Conflict(f"Leaderboard {found.name!r} has a webhook for this address already.")
        number = webhooks.add(
            session, board_id=found.id, url=url, secret=secret, created_by=actor.name, now=now
        )
        _record(session, actor, found, "add", number, url, now)
        return NewWebhook(**asdict(_find(session, found, number)), secret=secret)


@operation(
    "POST", "/leaderboards/{name}/webhooks/{webhook_id}/enable", "board webhook enable", subject="news"
)
def enable_webhook(db: Database, actor: Actor, board: Board, webhook_id: Number, *, now: datetime) -> Webhook:
    """Enable a disabled webhook again. Its waiting messages are sent."""
    with db.write(durable=True) as session:
        found = find_managed(session, board, actor)
        old = _find(session, found, webhook_id)
        webhooks.enable(session, webhook_id, now)
        _record(session, actor, found, "enable", webhook_id, old.url, now)
        return _find(session, found, webhook_id)


@operation("DELETE", "/leaderboards/{name}/webhooks/{webhook_id}", "board webhook remove", subject="news")
def remove_webhook(db: Database, actor: Actor, board: Board, webhook_id: Number, *, now: datetime) -> None:
    """Remove a webhook and its waiting messages."""
    with db.write(durable=True) as session:
        found = find_managed(session, board, actor)
        old = _find(session, found, webhook_id)
        webhooks.remove(session, webhook_id)
        _record(session, actor, found, "remove", webhook_id, old.url, now)


def check_address(
    url: str, *, own_networks: Sequence[Network] = (), resolve: Resolve = socket.getaddrinfo
) -> list[str]:
    """Return the IP addresses that requests for a URL may go to. Raise ``InvalidValue``.

    Only https on the ports 443 and 80 is allowed, except within ``own_networks``.
    """
    what = f"Webhook {url[:LONGEST_URL]!r}"
    parts, port = _split(url, what)
    host = parts.hostname or ""
    found = addresses_of(host, port, what=what, resolve=resolve, own_networks=own_networks)
    if not all(is_inside(ip_address(each), own_networks) for each in found):
        if parts.scheme != "https":
            raise InvalidValue(f"{what}: expected an https URL.")
        if port not in PORTS.values():
            raise InvalidValue(f"{what}: expected port 443 or 80; other ports are for configured networks.")
    return found


def _split(url: str, what: str) -> tuple[SplitResult, int]:
    try:
        parts = urlsplit(url)
        port = parts.port or PORTS.get(parts.scheme, 0)
    except ValueError:
        raise InvalidValue(f"{what} is not a URL.") from None
    plain = url.isascii() and url.isprintable() and " " not in url and len(url) <= LONGEST_URL
    if not plain or parts.scheme not in PORTS or not parts.hostname:
        raise InvalidValue(f"{what}: expected an https URL of at most {LONGEST_URL} characters.")
    if parts.username or parts.password or parts.fragment:
        raise InvalidValue(f"{what}: a user, password or fragment is not allowed; sign with the secret.")
    return parts, port


def _find(session: Session, board: Leaderboard, webhook_id: int) -> Webhook:
    found = webhooks.find(session, board.id, webhook_id)
    if found is None:
        raise NotFound(f"Leaderboard {board.name!r} has no webhook {webhook_id}.")
    return found


def _record(
    session: Session, actor: Actor, board: Leaderboard, what: str, number: int, url: str, now: datetime
) -> None:
    """Record the change in the audit log, without the path and query, which may hold a receiver's secret."""
    detail = {"webhook": number, "host": urlsplit(url).hostname or ""}
    audit_log.record(session, actor, f"webhook.{what}", f"board:{board.name}", detail, now)
