"""What is out of order in the service, and how its admins hear of it."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections import namedtuple
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from builders import NOW, make_actor, make_board
from kernelcup.app import upkeep
from kernelcup.app.machines import machines, outages
from kernelcup.app.news.delivery import DeliveryFailed, Postman
from kernelcup.app.news.newsroom import LOOKED_EVERY, Newsroom
from kernelcup.app.people.audit_log import entries
from kernelcup.app.upkeep import ALERT
from kernelcup.domain import OPERATOR
from kernelcup.domain.answers import CheckResult, check
from kernelcup.engine import Database
from kernelcup.errors import Forbidden, UnfitDevice
from kernelcup.launchers.base import MachineReading

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
SERVER = "http://127.0.0.1:8000"
Usage = namedtuple("Usage", ["total", "used", "free"])


def is_good(check: CheckResult) -> bool:
    return check.state == "ok"


def see(db: Database, now: datetime, *names: str, trouble: str = "") -> None:
    found = [MachineReading(name=name, slots={"H100": 1}, trouble=trouble) for name in names]
    machines.note_seen(db, found, launcher="local", is_own=True, now=now)


@pytest.fixture
def look(db, tmp_path) -> Callable[[datetime], dict[str, CheckResult]]:
    """Return the checks of a moment by what they are about."""

    def run(now: datetime) -> dict[str, CheckResult]:
        found = upkeep.checks(db, OPERATOR, now=now, server=SERVER, home=tmp_path / "not/there/yet")
        return {check.name: check for check in found}

    return run


def test_a_machine_that_is_silent_or_troubled_is_a_problem(db, look) -> None:
    see(db, NOW, "lab-1", "lab-2", "lab-3")
    see(db, NOW + HOUR, "lab-2")
    see(db, NOW + HOUR, "lab-3", trouble="no GPU answers")
    found = look(NOW + HOUR)
    assert found["machine:lab-2"] == CheckResult(
        "machine:lab-2", "ok", "up, last seen 2026-06-01 13:00 UTC", needed=True
    )
    how = "start what judges there, or: kernelcup admin machines drain"
    assert found["machine:lab-1"].text == f"down, last seen 2026-06-01 12:00 UTC ({how} lab-1)"
    assert (
        found["machine:lab-3"].text
        == f"out of service: no GPU answers, last seen 2026-06-01 13:00 UTC ({how} lab-3)"
    )
    assert [is_good(found[f"machine:lab-{number}"]) for number in (1, 2, 3)] == [False, True, False]


def test_what_a_machine_says_is_one_short_line(db, look) -> None:
    see(db, NOW, "lent", trouble="hot\nmachine:other: up\x1b[2J " + "x" * 5000)
    text = look(NOW)["machine:lent"].text
    assert text.startswith("out of service: hot machine:other: up\\x1b[2J xxx")
    assert (text.isprintable(), len(text) < 500) == (True, True)


def test_a_machine_that_drains_or_never_came_is_no_problem(db, look) -> None:
    see(db, NOW, "lab-1")
    machines.change(db, "lab-1", is_draining=True, now=NOW)
    machines.add_agent(db, "expected", now=NOW)
    assert [each for each in look(NOW + HOUR) if each.startswith("machine:")] == []


def test_gpus_out_of_service_are_named(db, look) -> None:
    assert is_good(look(NOW)["gpus"])
    outages.take_out(db, UnfitDevice("it is hot", gpus=("0",)), device="H100", now=NOW, machine="lab-1")
    assert look(NOW)["gpus"].text.startswith("H100 on lab-1 is out of service: it is hot (they return")


def test_a_service_with_something_to_lose_needs_backups(db, look, tmp_path) -> None:
    assert is_good(look(NOW)["backup"])
    make_board(db)
    assert is_good(look(NOW + DAY)["backup"])
    # PostgreSQL may have backups of its own.
    assert is_good(look(NOW + 3 * DAY)["backup"]) == (db.engine.dialect.name == "postgresql")


def test_a_backup_that_is_two_days_old_is_too_old(db, look, tmp_path) -> None:
    if db.engine.dialect.name == "postgresql":
        pytest.skip("needs pg_dump")
    make_board(db)
    upkeep.back_up(db, tmp_path / "copy", now=NOW + 3 * DAY)
    assert look(NOW + 5 * DAY)["backup"].text == "the last is of 2026-06-04 12:00 UTC"
    late = look(NOW + 5 * DAY + HOUR)["backup"]
    assert (is_good(late), "kernelcup db backup --keep 14" in late.text) == (False, True)


def test_a_disk_that_is_nearly_full_is_a_problem(look, monkeypatch: pytest.MonkeyPatch) -> None:
    for total_gb, too_little_gb, enough_gb in ((10, 0.9, 1.1), (100, 4.9, 5.1), (4000, 19, 21)):
        for free_gb, good in ((too_little_gb, False), (enough_gb, True)):
            usage = Usage(int(total_gb * 1e9), 0, int(free_gb * 1e9))
            monkeypatch.setattr("shutil.disk_usage", lambda _folder, usage=usage: usage)
            found = look(NOW)[f"disk:{socket.gethostname()}"]
            assert (is_good(found), "make room" in found.text) == (good, not good)
            assert found.text.startswith(f"{free_gb:.1f} GB free at /")


def test_only_admins_see_what_is_out_of_order(db) -> None:
    with pytest.raises(Forbidden):
        upkeep.checks(db, make_actor(db, "ada"), now=NOW, server=SERVER, home=Path("/"))


# --- certificates ---


@contextmanager
def tls_server(folder: Path, *, begins: datetime, ends: datetime, name: str = "127.0.0.1") -> Iterator[str]:
    """Serve TLS handshakes with a certificate of these dates, and yield the address."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "cup")])
    made = x509.CertificateBuilder(subject, subject, key.public_key(), 7, begins, ends)
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(name))])
    made = made.add_extension(names, critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "cert.pem").write_bytes(
        made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    )
    (folder / "both.pem").write_bytes(private + (folder / "cert.pem").read_bytes())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "both.pem")

    def answer(listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            try:
                with context.wrap_socket(sock, server_side=True) as secure:
                    secure.recv(1)
            except OSError:
                sock.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, args=[listener], daemon=True)
        thread.start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize(
    ("lasts", "left", "good", "words"),
    [(90, 15, True, "15 days"), (90, 13, False, "13 days"), (6, 2, True, "2 days")],
    ids=["of 90 days", "of 90 days, soon over", "of 6 days"],
)
def test_a_certificate_is_to_be_renewed_in_time(
    tmp_path, monkeypatch: pytest.MonkeyPatch, lasts: int, left: int, good: bool, words: str
) -> None:
    now = datetime.now().astimezone()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    ends = now + left * DAY + HOUR
    with tls_server(tmp_path, begins=ends - lasts * DAY, ends=ends) as url:
        (found,) = upkeep.certificate(url, now)
    assert (found.name, is_good(found)) == ("certificate:127.0.0.1", good)
    assert found.text == f"valid for {words}" + ("" if good else " (renew it)")


def test_a_certificate_that_browsers_refuse_is_a_problem(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime.now().astimezone()
    with tls_server(tmp_path, begins=now - DAY, ends=now + 90 * DAY) as url:
        (found,) = upkeep.certificate(url, now)
    assert (is_good(found), "self-signed certificate (the proxy needs one for 127.0.0.1" in found.text) == (
        False,
        True,
    )
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    with tls_server(tmp_path, begins=now - DAY, ends=now + 90 * DAY, name="127.0.0.9") as url:
        (found,) = upkeep.certificate(url, now)
    assert (is_good(found), "IP address mismatch" in found.text) == (False, True)


def test_an_address_without_tls_or_without_a_listener_has_no_certificate() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert upkeep.certificate(f"http://127.0.0.1:{port}", NOW) == []
    assert upkeep.certificate(f"https://127.0.0.1:{port}", NOW) == []


# --- what admins hear ---


class Chat:
    """A chat's address for messages."""

    def __init__(self) -> None:
        self.got: list[str] = []
        self.status = 204

    def post(self, url, addresses, headers, body) -> int:
        message = json.loads(body)
        assert message["content"] == message["text"]
        assert message["allowed_mentions"] == {"parse": []}
        if self.status == 204:
            self.got += message["text"].splitlines()
        return self.status


@pytest.fixture
def chat() -> Chat:
    return Chat()


@pytest.fixture
def postman(db, clock, chat) -> Postman:
    def public(_host: str, port: int, **_options: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.215.14", port))]

    return Postman(db=db, sender=chat, clock=clock, public_url=SERVER, resolve=public)


@pytest.fixture
def tell(db, postman, tmp_path) -> Callable[[datetime], None]:
    send = partial(postman.tell, "https://chat.example.org/secret")
    return lambda now: upkeep.tell(db, now=now, server=SERVER, home=tmp_path, send=send)


def test_a_problem_is_told_once_a_day_and_its_end_once(db, chat, tell) -> None:
    see(db, NOW, "lab")
    tell(NOW)
    assert chat.got == []
    for minutes in (10, 15, 60 * 23):
        tell(NOW + timedelta(minutes=minutes))
    assert [line[:18] for line in chat.got] == ["machine:lab: down,"]
    tell(NOW + DAY + HOUR)
    assert len(chat.got) == 2
    see(db, NOW + DAY + 2 * HOUR, "lab")
    for _ in range(2):
        tell(NOW + DAY + 2 * HOUR)
    assert chat.got[2:] == ["machine:lab: up, last seen 2026-06-02 14:00 UTC"]
    told = entries(db, OPERATOR, action=ALERT)
    assert [(entry.actor, entry.target, entry.detail["state"]) for entry in told] == [
        ("kernelcup", "machine:lab", state) for state in ("ok", "broken", "broken")
    ]


def test_several_problems_are_one_message_and_each_server_knows_what_was_told(
    db, chat, postman, tmp_path
) -> None:
    see(db, NOW, "lab-1", "lab-2")
    posted: list[str] = []
    for _server in range(2):
        upkeep.tell(db, now=NOW + HOUR, server=SERVER, home=tmp_path, send=posted.append)
    (text,) = posted
    assert [line.partition(": ")[0] for line in text.splitlines()] == ["machine:lab-1", "machine:lab-2"]


def test_what_a_chat_did_not_take_is_told_again(db, chat, tell) -> None:
    see(db, NOW, "lab")
    chat.status = 500
    with pytest.raises(DeliveryFailed, match="KERNELCUP_ALERTS: it answered 500"):
        tell(NOW + HOUR)
    assert entries(db, OPERATOR, action=ALERT) == []
    chat.status = 204
    tell(NOW + HOUR)
    assert len(chat.got) == 1


def test_an_address_that_may_not_be_reached_is_refused_and_not_shown(db, clock, chat) -> None:
    postman = Postman(db=db, sender=chat, clock=clock, public_url=SERVER)
    with pytest.raises(DeliveryFailed) as refused:
        postman.tell("https://127.0.0.1/secret", "down")
    assert "secret" not in str(refused.value)
    assert chat.got == []


def test_a_server_looks_every_five_minutes_and_not_at_once(db, clock, postman) -> None:
    looks: list[datetime] = []
    newsroom = Newsroom(
        db, postman, clock=clock, beside=lambda work: work(), tell_problems=lambda now: looks.append(now)
    )
    for _ in range(11):
        newsroom.step()
        clock.advance(60)
    assert looks == [NOW + LOOKED_EVERY, NOW + 2 * LOOKED_EVERY]


def test_a_certificate_is_shown_as_it_was_told(db, tmp_path) -> None:
    url = "https://cup.example.org"

    def shown(now: datetime) -> list[CheckResult]:
        found = upkeep.checks(db, OPERATOR, now=now, server=url, home=tmp_path)
        return [check for check in found if check.kind == "certificate"]

    bad = check("certificate:cup.example.org", False, "valid for 3 days", "renew it")
    assert shown(NOW) == []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(upkeep, "certificate", lambda _url, _now: [bad])
        upkeep.tell(db, now=NOW, server=url, home=tmp_path, send=None)
    assert shown(NOW + HOUR) == [bad]
    assert shown(NOW + 3 * DAY) == []  # no server has read it since
