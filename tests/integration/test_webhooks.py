"""News reach webhooks: signed, at least once, and never the server's own network."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import ip_network
from typing import Any

import pytest

from builders import NOW, make_actor, make_board
from hand_judging import Judging
from kernelcup.app.courses import membership
from kernelcup.app.news import webhooks
from kernelcup.app.news.delivery import PAUSES_S, DeliveryFailed, Postman
from kernelcup.app.news.newsroom import EVERY_S, Newsroom
from kernelcup.app.people import audit_log
from kernelcup.app.results.freezes import freeze
from kernelcup.domain import OPERATOR, Role, Visibility
from kernelcup.errors import Conflict, Forbidden, InvalidValue, NotFound
from kernelcup.http.outgoing import HttpSender

URL = "https://hooks.example.org/cup"
PROMISED_S = 15
LONG_AGO = NOW - timedelta(days=2)
"""An opening that is no news any more."""


def to_public(_host: str, port: int, **_options: object) -> list[tuple[object, ...]]:
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.215.14", port))]


class FakeReceiver:
    """A receiver at the other end of the internet."""

    def __init__(self) -> None:
        self.status: int | None = 200
        """None while it is down."""
        self.got: list[tuple[str, list[str], dict[str, str], bytes]] = []

    def post(self, url: str, addresses: Any, headers: Any, body: bytes) -> int:
        if self.status is None:
            raise DeliveryFailed("connection refused")
        self.got.append((url, list(addresses), dict(headers), body))
        return self.status

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [json.loads(body) for *_, body in self.got]

    @property
    def ids(self) -> list[str]:
        return [headers["webhook-id"] for _, _, headers, _ in self.got]


@pytest.fixture
def receiver() -> FakeReceiver:
    return FakeReceiver()


@pytest.fixture
def newsroom(db, clock, receiver) -> Newsroom:
    """A newsroom that does everything at once."""
    postman = Postman(
        db=db, sender=receiver, clock=clock, public_url="https://cup.example.org", resolve=to_public
    )
    return Newsroom(db, postman, clock=clock, beside=lambda work: work())


@pytest.fixture
def judging(db, clock) -> Judging:
    make_board(db, opens_at=LONG_AGO)
    return Judging(db, clock)


def register(db, url: str = URL, actor=OPERATOR, board: str = "double", **options):
    values = {"now": NOW, "resolve": to_public}
    return webhooks.add_webhook(db, actor, board, url, **(values | options))


def verify(secret: str, headers: dict[str, str], body: bytes) -> bool:
    """Check a signature as https://www.standardwebhooks.com tells receivers to."""
    key = base64.b64decode(secret.split("_", 1)[1])
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    wanted = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    return f"v1,{wanted}" in headers["webhook-signature"].split(" ")


def test_a_new_first_place_is_sent_signed_within_the_promised_time(judging, newsroom, receiver) -> None:
    made = register(judging.db)
    submission = judging.judge(2000)
    assert EVERY_S < PROMISED_S
    judging.clock.advance(EVERY_S)
    newsroom.step()
    ((url, addresses, headers, body),) = receiver.got
    assert (url, addresses) == (URL, ["93.184.215.14"])
    assert verify(made.secret, headers, body)
    assert not verify(made.secret, headers, body + b" ")
    assert not verify(register(judging.db, "https://other.example.org").secret, headers, body)
    assert abs(int(headers["webhook-timestamp"]) - judging.clock().timestamp()) < 1
    (message,) = receiver.messages
    assert message["type"] == "first_place"
    assert message["data"] == {
        "id": 1,
        "leaderboard": "double",
        "device": "H100",
        "submission": submission.id,
        "user": "ada",
        "score_s": pytest.approx(2e-6),
        "tied": False,
        "before": None,
        "deadline": None,
        "text": "ada takes the first place of double on H100 with 2 µs.",
        "url": f"https://cup.example.org/s/{submission.id}",
    }


def test_each_piece_of_news_is_sent_in_order_and_once_while_all_is_well(judging, newsroom, receiver) -> None:
    register(judging.db)
    judging.judge(2000)
    judging.judge(1000, "bob")
    newsroom.step()
    newsroom.step()
    assert [each["type"] for each in receiver.messages] == ["first_place", "first_place", "overtaken"]
    assert receiver.ids == ["news-1", "news-3", "news-4"]  # the second is a verdict, for the bell
    assert (
        receiver.messages[2]["data"]["text"]
        == "ada's result in double on H100 was overtaken by bob with 1 µs."
    )
    (hook,) = webhooks.list_webhooks(judging.db, OPERATOR, "double")
    assert (hook.waiting, hook.failures, hook.succeeded_at) == (0, 0, judging.clock())


def test_what_a_receiver_missed_is_sent_again_under_the_same_id(judging, newsroom, receiver) -> None:
    register(judging.db)
    receiver.status = None
    judging.judge(2000)
    newsroom.step()
    judging.judge(1000, "bob")
    (hook,) = webhooks.list_webhooks(judging.db, OPERATOR, "double")
    assert (hook.failures, hook.last_error, hook.waiting) == (1, "connection refused", 3)
    receiver.status = 500
    judging.clock.advance(PAUSES_S[0])
    newsroom.step()
    assert receiver.ids == ["news-1"]
    assert webhooks.list_webhooks(judging.db, OPERATOR, "double")[0].last_error == "it answered 500"
    receiver.status = 204
    newsroom.step()
    assert receiver.ids == ["news-1"]  # not before its pause is over
    judging.clock.advance(PAUSES_S[1])
    newsroom.step()
    assert receiver.ids == ["news-1", "news-1", "news-3", "news-4"]
    assert receiver.got[0][3] == receiver.got[1][3]


def test_a_delivery_whose_server_was_killed_is_made_by_the_next_one(judging, newsroom, receiver) -> None:
    register(judging.db)
    judging.judge(2000)
    postman = Postman(db=judging.db, sender=receiver, clock=judging.clock, public_url="", resolve=to_public)
    assert len(postman.claim(5)) == 1  # and then it is killed
    newsroom.step()
    assert receiver.got == []
    judging.clock.advance(91)
    newsroom.step()
    assert receiver.ids == ["news-1"]


def test_two_servers_send_it_once(judging, receiver) -> None:
    register(judging.db)
    judging.judge(2000)
    postman = Postman(db=judging.db, sender=receiver, clock=judging.clock, public_url="", resolve=to_public)
    assert [len(postman.claim(5)), len(postman.claim(5))] == [1, 0]


def test_a_webhook_that_fails_for_long_is_disabled_shown_and_can_be_enabled(
    judging, newsroom, receiver
) -> None:
    register(judging.db)
    receiver.status = 302
    judging.judge(2000)
    for pause_s in (*PAUSES_S, 1):
        newsroom.step()
        judging.clock.advance(pause_s)
    (hook,) = webhooks.list_webhooks(judging.db, OPERATOR, "double")
    assert hook.disabled_at is not None
    assert hook.failures == len(PAUSES_S) + 1 == len(receiver.got)
    judging.clock.advance(10**6)
    newsroom.step()
    assert len(receiver.got) == len(PAUSES_S) + 1
    receiver.status = 200
    webhooks.enable_webhook(judging.db, OPERATOR, "double", hook.id, now=judging.clock())
    newsroom.step()
    assert receiver.ids[-1] == "news-1"
    assert webhooks.list_webhooks(judging.db, OPERATOR, "double")[0].disabled_at is None


def test_a_receiver_that_says_that_it_is_gone_is_not_asked_again(judging, newsroom, receiver) -> None:
    register(judging.db)
    receiver.status = 410
    judging.judge(2000)
    newsroom.step()
    assert webhooks.list_webhooks(judging.db, OPERATOR, "double")[0].disabled_at == judging.clock()


def test_a_frozen_board_sends_nothing_of_results(judging, newsroom, receiver) -> None:
    register(judging.db)
    freeze(judging.db, OPERATOR, "double", judging.clock(), now=judging.clock())
    judging.clock.advance(1)
    judging.judge(2000)
    newsroom.step()
    assert receiver.got == []


def test_a_webhook_of_another_board_is_told_nothing(judging, newsroom, receiver) -> None:
    make_board(judging.db, name="other", visibility=Visibility.CLOSED, opens_at=NOW + timedelta(days=1))
    register(judging.db, board="other")
    judging.judge(2000, board="double")
    newsroom.step()
    assert receiver.got == []


def test_a_webhook_is_told_the_pseudonyms_that_members_see(db, clock, newsroom, receiver) -> None:
    make_board(db, pseudonymous=True, opens_at=LONG_AGO)
    register(db)
    make_actor(db, "ada")
    membership.add_member(db, OPERATOR, "double", "ada", pseudonym="fox", now=NOW)
    Judging(db, clock).judge(2000)
    newsroom.step()
    assert receiver.messages[-1]["data"]["user"] == "fox"
    assert all(b'"ada' not in body and b" ada" not in body for *_, body in receiver.got)


def test_a_name_that_moves_into_the_own_network_is_not_followed_there(judging, receiver) -> None:
    register(judging.db)
    judging.judge(2000)

    def to_own(_host: str, port: int, **_options: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    postman = Postman(db=judging.db, sender=receiver, clock=judging.clock, public_url="", resolve=to_own)
    Newsroom(judging.db, postman, clock=judging.clock, beside=lambda work: work()).step()
    assert receiver.got == []
    assert (
        "not a host on the public internet"
        in webhooks.list_webhooks(judging.db, OPERATOR, "double")[0].last_error
    )


NOWHERE = (
    "http://hooks.example.org/",
    "https://127.0.0.1/",
    "https://[::ffff:10.0.0.1]/",
    "https://169.254.169.254/latest/meta-data",
    "https://localhost/",
    "https://user:password@example.org/",
    "https://example.org/#part",
    "ftp://example.org/",
    "https:///nothing",
    "https://example.org:99999/",
    "https://hooks.example.org:8443/",
    "https://hooks.example.org:22/",
    "https://exa mple.org/",
    "https://[::1",
    "nothing",
    "https://example.org/" + "x" * 500,
)
"""Addresses that no request may go to."""


def test_an_address_that_no_request_may_go_to_is_refused(db) -> None:
    make_board(db)
    for url in NOWHERE:
        resolve = to_public if "hooks" in url else socket.getaddrinfo
        with pytest.raises(InvalidValue):
            register(db, url, resolve=resolve)
    assert webhooks.list_webhooks(db, OPERATOR, "double") == []


def test_who_manages_a_board_manages_its_webhooks_and_nobody_else(db) -> None:
    make_board(db)
    make_board(db, name="closed", visibility=Visibility.CLOSED)
    grace, eve = make_actor(db, "grace", role=Role.CREATOR), make_actor(db, "eve", role=Role.CREATOR)
    made = register(db, actor=grace)
    assert made.created_by == "grace"
    for refuse in (
        lambda: register(db, actor=eve),
        lambda: webhooks.list_webhooks(db, eve, "double"),
        lambda: webhooks.remove_webhook(db, eve, "double", made.id, now=NOW),
        lambda: webhooks.enable_webhook(db, eve, "double", made.id, now=NOW),
    ):
        with pytest.raises(Forbidden):
            refuse()
    with pytest.raises(NotFound):
        webhooks.list_webhooks(db, eve, "closed")
    with pytest.raises(NotFound):
        webhooks.remove_webhook(db, OPERATOR, "closed", made.id, now=NOW)
    webhooks.remove_webhook(db, grace, "double", made.id, now=NOW)
    assert webhooks.list_webhooks(db, grace, "double") == []
    entries = [each for each in audit_log.entries(db, OPERATOR) if each.action.startswith("webhook.")]
    assert [each.action for each in entries] == ["webhook.remove", "webhook.add"]
    assert all(each.detail == {"webhook": 1, "host": "hooks.example.org"} for each in entries)


def test_a_board_has_ten_webhooks_at_most_and_each_address_once(db) -> None:
    make_board(db)
    for number in range(10):
        register(db, f"{URL}/{number}")
        if not number:
            with pytest.raises(Conflict, match="already"):
                register(db, f"{URL}/0")
    with pytest.raises(Conflict, match="10 webhooks"):
        register(db, f"{URL}/more")


# ---- over a socket


@contextmanager
def listening(answer) -> Iterator[tuple[str, list[Any]]]:
    """Serve on this machine; yield the address and what was asked."""
    asked: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(
                (self.path, dict(self.headers), self.rfile.read(int(self.headers["Content-Length"])))
            )
            answer(self)

        def log_message(self, *_args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://receiver.test:{server.server_port}/hook", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def to_here(_host: str, port: int, **_options: object) -> list[tuple[object, ...]]:
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]


def test_a_receiver_in_a_network_that_is_configured_gets_a_real_request(judging) -> None:
    networks = [ip_network("127.0.0.0/8")]
    with listening(lambda handler: (handler.send_response(200), handler.end_headers())) as (url, asked):
        made = register(judging.db, url, own_networks=networks, resolve=to_here)
        judging.judge(2000)
        postman = Postman(
            db=judging.db,
            sender=HttpSender(),
            clock=judging.clock,
            public_url="",
            own_networks=networks,
            resolve=to_here,
        )
        Newsroom(judging.db, postman, clock=judging.clock, beside=lambda work: work()).step()
    (path, headers, body) = asked[-1]
    assert path == "/hook"
    assert headers["Host"] == url.split("/")[2]
    assert verify(made.secret, {name.lower(): value for name, value in headers.items()}, body)
    assert webhooks.list_webhooks(judging.db, OPERATOR, "double")[0].waiting == 0


def test_a_redirect_is_not_followed() -> None:
    def redirect(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(307)
        handler.send_header("Location", "/elsewhere")
        handler.end_headers()

    with listening(redirect) as (url, asked):
        assert HttpSender().post(url, ["127.0.0.1"], {}, b"{}") == 307
    assert [path for path, *_ in asked] == ["/hook"]


def test_a_receiver_that_drips_its_answer_is_given_up() -> None:
    ended = threading.Event()

    def drip(handler: BaseHTTPRequestHandler) -> None:
        while not ended.wait(0.01):
            try:
                handler.wfile.write(b"H")
                handler.wfile.flush()
            except OSError:
                return

    with listening(drip) as (url, _asked):
        with pytest.raises(DeliveryFailed, match=r"within 0\.2 s"):
            HttpSender(whole_s=0.2).post(url, ["127.0.0.1"], {}, b"{}")
        ended.set()


def test_nobody_there_is_a_failed_delivery_and_the_next_address_is_tried() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(DeliveryFailed):
        HttpSender().post(f"http://receiver.test:{port}/", ["127.0.0.1"], {}, b"{}")
    with listening(lambda handler: (handler.send_response(200), handler.end_headers())) as (url, _asked):
        assert HttpSender().post(url, ["127.0.0.2", "127.0.0.1"], {}, b"{}") == 200
