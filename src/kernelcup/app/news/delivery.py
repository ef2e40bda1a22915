"""Deliver news to webhooks: at least once, signed, in order, with growing pauses while a receiver fails.

Messages are signed as specified by https://www.standardwebhooks.com, so that its libraries can verify them.
Pending deliveries are in the database: after a crash they are sent again, under the same id.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol

from kernelcup.app.news import stream
from kernelcup.app.news.queries import webhooks
from kernelcup.app.news.queries.webhooks import DeliveryLease
from kernelcup.app.news.stream import Item
from kernelcup.app.news.webhooks import SECRET_PREFIX, check_address
from kernelcup.app.outgoing import Network, Resolve
from kernelcup.engine import Database
from kernelcup.errors import InvalidValue, StorageUnavailable

PAUSES_S = (5, 15, 60, 300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600)
"""The pauses after consecutive failures; one failure more disables the webhook."""
LEASE = timedelta(seconds=90)
"""Longer than a name lookup and a request take."""
GONE = 410
LONGEST_TEXT = 2000
"""Of a message to Discord, which calls it ``content``; Slack and others call it ``text``."""
AT_ONCE = 16
"""How many receivers are contacted at the same time, so that slow ones do not delay the others much."""

logger = logging.getLogger(__name__)


class DeliveryFailed(Exception):
    """A receiver was not reached, or did not answer in time."""


class Sender(Protocol):
    """Sends HTTP requests."""

    def post(self, url: str, addresses: Sequence[str], headers: Mapping[str, str], body: bytes) -> int:
        """Send to one of the addresses, follow no redirect, and return the status. Raise ``DeliveryFailed``."""


@dataclass(frozen=True, kw_only=True)
class Postman:
    """Delivers pending news.

    Args:
        public_url: The address of the service, for links.
        own_networks: Private networks that webhooks may reach.
    """

    db: Database
    sender: Sender
    clock: Callable[[], datetime]
    public_url: str
    own_networks: Sequence[Network] = ()
    resolve: Resolve = socket.getaddrinfo

    def claim(self, limit: int, webhook_id: int | None = None) -> list[DeliveryLease]:
        """Lease up to ``limit`` due deliveries, of one webhook or of all."""
        now = self.clock()
        with self.db.read() as session:
            if not webhooks.has_due(session, now):
                return []
        with self.db.write() as session:
            return webhooks.claim(session, now=now, until=now + LEASE, limit=limit, webhook_id=webhook_id)

    def deliver(self, lease: DeliveryLease) -> None:
        """Deliver a news item, and then those that wait behind it."""
        following = [lease]
        while following and self._deliver(following[0]):
            following = self.claim(1, webhook_id=lease.webhook_id)

    def tell(self, url: str, text: str) -> None:
        """Send a text to a chat's address, which is a secret. Raise ``DeliveryFailed``."""
        try:
            addresses = check_address(url, own_networks=self.own_networks, resolve=self.resolve)
        except InvalidValue:
            raise DeliveryFailed("KERNELCUP_ALERTS is no https address that may be reached") from None
        # A machine with the name @everyone may not notify all members on Discord.
        message = {"content": text[:LONGEST_TEXT], "text": text, "allowed_mentions": {"parse": list[str]()}}
        body = json.dumps(message).encode()
        status = self.sender.post(url, addresses, {"Content-Type": "application/json"}, body)
        if not 200 <= status < 300:
            raise DeliveryFailed(f"KERNELCUP_ALERTS: it answered {status}")

    def _deliver(self, lease: DeliveryLease) -> bool:
        with self.db.read() as session:
            item = stream.for_webhook(session, lease.news_id)
        if item is None:
            with self.db.write() as session:
                webhooks.drop(session, lease)
            return True
        try:
            status = self._send(lease, item)
        except (DeliveryFailed, InvalidValue) as error:
            return self._failed(lease, str(error))
        if not 200 <= status < 300:
            return self._failed(lease, f"it answered {status}", gone=status == GONE)
        with self.db.write() as session:
            webhooks.succeed(session, lease, self.clock())
        return True

    def _send(self, lease: DeliveryLease, item: Item) -> int:
        addresses = check_address(lease.url, own_networks=self.own_networks, resolve=self.resolve)
        body = body_of(item, self.public_url)
        headers = signed_headers(lease.secret, f"news-{item.id}", self.clock(), body)
        return self.sender.post(lease.url, addresses, headers, body)

    def _failed(self, lease: DeliveryLease, error: str, *, gone: bool = False) -> bool:
        now = self.clock()
        gives_up = gone or lease.failures >= len(PAUSES_S)
        pause_s = PAUSES_S[min(lease.failures, len(PAUSES_S) - 1)]
        with self.db.write() as session:
            webhooks.fail(
                session,
                lease,
                error=error[:300],
                next_at=now + timedelta(seconds=pause_s),
                disabled_at=now if gives_up else None,
            )
        logger.info("webhook %d failed: %s", lease.webhook_id, error)
        return False


class Deliveries:
    """Deliveries that are running in the background."""

    def __init__(self, postman: Postman, beside: Callable[[Callable[[], None]], None]) -> None:
        self._postman = postman
        self._beside = beside
        self._changed = threading.Condition()
        self._busy = 0

    def start_due(self) -> int:
        """Start due deliveries, as far as there is room; return how many were started."""
        with self._changed:
            room = AT_ONCE - self._busy
        leases = self._postman.claim(room) if room > 0 else []
        for lease in leases:
            with self._changed:
                self._busy += 1
            self._beside(partial(self._work, lease))
        return len(leases)

    def wait(self, timeout_s: float) -> bool:
        """Wait until no delivery is running; return False if the timeout passed before."""
        with self._changed:
            return self._changed.wait_for(lambda: self._busy == 0, timeout_s)

    def _work(self, lease: DeliveryLease) -> None:
        try:
            self._postman.deliver(lease)
        except StorageUnavailable as error:  # the lease expires, and it is sent again
            logger.warning("webhook %d: cannot store the result of a delivery: %s", lease.webhook_id, error)
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()


def body_of(item: Item, public_url: str) -> bytes:
    """Return the message about a news item, as JSON."""
    data: dict[str, Any] = {
        "id": item.id,
        "leaderboard": item.leaderboard,
        "device": item.device or None,
        "submission": item.submission,
        "user": item.user or None,
        "score_s": item.score_s,
        "tied": item.tied,
        "before": item.before or None,
        "deadline": None if item.deadline is None else item.deadline.isoformat(),
        "text": item.text,
        "url": "/".join((public_url, *item.page)),
    }
    message = {"type": item.kind.value, "timestamp": item.at.isoformat(), "data": data}
    return json.dumps(message, ensure_ascii=False).encode()


def signed_headers(secret: str, message_id: str, at: datetime, body: bytes) -> dict[str, str]:
    """Return the headers with which a receiver verifies a message and recognizes a repeated one."""
    stamp = str(int(at.timestamp()))
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    signature = hmac.new(key, b".".join([message_id.encode(), stamp.encode(), body]), hashlib.sha256)
    return {
        "Content-Type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": stamp,
        "webhook-signature": f"v1,{base64.b64encode(signature.digest()).decode()}",
    }
