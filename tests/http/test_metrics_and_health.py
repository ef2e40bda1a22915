"""What monitoring learns of the service."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML
from structlog.testing import capture_logs

from builders import NOW, make_board, make_device
from hand_judging import Judging
from kernelcup.app.boards.changes import update_board
from kernelcup.app.boards.settings import BoardChanges
from kernelcup.app.machines import dispatchers, machines
from kernelcup.app.news.queries import webhooks
from kernelcup.domain import OPERATOR, Visibility
from kernelcup.http import capacity
from kernelcup.http.capacity import Room
from kernelcup.http.pages.boards import live
from kernelcup.http.server import WebServer, listen, url_of
from kernelcup.launchers.base import MachineReading
from kernelcup.tables import WebhookRow


def figure(text: str, name: str) -> float:
    """Return one figure of the metrics."""
    (line,) = [line for line in text.splitlines() if line.startswith(f"{name} ")]
    return float(line.split()[-1])


def test_a_server_without_a_judge_is_healthy_and_not_ready(client, db) -> None:
    assert client.get("/healthz").json() == {"status": "ok", "checks": {"database": "ok"}}
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["checks"]["judge"]) == (503, "no judge gave a sign of life")
    dispatchers.check_in(db, owner="here", devices=[make_device()], started_at=NOW, draining=False, now=NOW)
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (200, "ok")


def test_watchers_are_counted(server_url, db) -> None:
    make_board(db)
    assert figure(httpx.get(f"{server_url}/metrics").text, "kernelcup_event_watchers") == 0
    address = f"{server_url}/b/double/live?device=H100&since=none"
    with httpx.stream("GET", address, timeout=60) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith("id: ")
        assert figure(httpx.get(f"{server_url}/metrics").text, "kernelcup_event_watchers") == 1


def test_the_stream_of_a_ranking_ends_when_its_reader_loses_the_right(
    server_url, db, person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "POLL_S", 0.02)
    monkeypatch.setattr(live, "CHECK_S", 0.0)
    make_board(db)
    address, token = f"{server_url}/b/double/live?device=H100&since=none", person("bob").token
    with httpx.stream("GET", address, headers={"Authorization": f"Bearer {token}"}, timeout=60) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith("id: ")
        update_board(db, OPERATOR, "double", changes=BoardChanges(visibility=Visibility.CLOSED), now=NOW)
        assert all(line.startswith(("id: ", "event: ", "data: ", ":")) or not line for line in lines)


def test_answers_503_are_counted_by_cause(client, platform, monkeypatch) -> None:
    monkeypatch.setattr(capacity, "STANDSTILL_S", 0.01)
    with monkeypatch.context() as full:
        full.setattr(platform, "room", Room(readers=0))
        for path in ("/api/v1/leaderboards", "/leaderboards"):
            assert client.get(path).status_code == 503
    assert figure(client.get("/metrics").text, 'kernelcup_unavailable_total{cause="overloaded"}') == 2


def test_refused_connections_are_counted(platform) -> None:
    from kernelcup.http.door import Door

    sock = listen("127.0.0.1", 0)
    server = WebServer(platform, sock, connections=type("Door", (Door,), {"most": 0}))
    server.wait_until_ready()
    try:
        assert httpx.get(f"{url_of(sock)}/api/v1/leaderboards").status_code == 503
    finally:
        server.stop()
        sock.close()
    counted = server.app.state.metrics.render().decode()
    assert figure(counted, 'kernelcup_unavailable_total{cause="connections"}') == 1


def test_verdicts_webhooks_and_the_size_of_the_database_are_metrics(client, db, clock) -> None:
    make_board(db)
    text = client.get("/metrics").text
    assert figure(text, 'kernelcup_verdicts_total{verdict="accepted"}') == 0
    assert figure(text, 'kernelcup_webhooks_failing{state="retried"}') == 0
    assert figure(text, "kernelcup_database_bytes") > 4096
    Judging(db, clock).judge()
    with db.write() as session:
        for number, (failures, disabled_at) in enumerate([(0, None), (2, None), (9, NOW)]):
            webhooks.add(
                session,
                board_id=1,
                url=f"https://example.org/{number}",
                secret="whsec_x",
                created_by="root",
                now=NOW,
            )
            row = session.get(WebhookRow, number + 1)
            row.failures, row.disabled_at = failures, disabled_at
    for _ in range(2):  # a scrape counts no run twice
        text = client.get("/metrics").text
        assert figure(text, 'kernelcup_verdicts_total{verdict="accepted"}') == 1
        assert figure(text, 'kernelcup_webhooks_failing{state="retried"}') == 1
        assert figure(text, 'kernelcup_webhooks_failing{state="disabled"}') == 1


def test_what_is_out_of_order_is_a_metric_without_names(client, db, clock) -> None:
    readings = [MachineReading(name=name, slots={"H100": 1}) for name in ("lab-1", "lab-2", "lab-3")]
    machines.note_seen(db, readings, launcher="local", is_own=True, now=NOW)
    clock.advance(3600)
    machines.note_seen(db, readings[:1], launcher="local", is_own=True, now=clock())
    text = client.get("/metrics").text
    assert figure(text, 'kernelcup_problems{kind="machine"}') == 2
    assert figure(text, 'kernelcup_problems{kind="backup"}') == 0
    assert "lab-" not in text


def test_the_log_has_the_address_of_a_client_behind_a_trusted_proxy(platform) -> None:
    server_settings = dataclasses.replace(platform.config.server, trusted_proxies=("127.0.0.1",))
    platform.config = dataclasses.replace(platform.config, server=server_settings)
    sock = listen("127.0.0.1", 0)
    server = WebServer(platform, sock)
    server.wait_until_ready()
    with capture_logs() as logs:
        httpx.get(f"{url_of(sock)}/livez", headers={"X-Forwarded-For": "203.0.113.9"})
        server.stop()
    sock.close()
    assert [each["client"] for each in logs if each["event"] == "request"] == ["203.0.113.9"]


MONITORING = Path(__file__).parents[2] / "docs/how-to/monitoring"
ADDED = {"instance", "le"}
"""Labels that Prometheus adds, or that every histogram has."""


def expressions() -> list[str]:
    """Return the expressions of the alert file and of the dashboard file."""
    rules = YAML(typ="safe").load(MONITORING / "alerts.yml")
    board = json.loads((MONITORING / "dashboard.json").read_text())
    found = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    return found + [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def test_alerts_and_dashboard_name_only_metrics_and_labels_that_are_served(
    client, db, clock, platform, monkeypatch
) -> None:
    make_board(db)
    Judging(db, clock).submit()
    client.get("/metrics")
    monkeypatch.setattr(capacity, "STANDSTILL_S", 0.01)
    with monkeypatch.context() as full:
        full.setattr(platform, "room", Room(readers=0))
        client.get("/api/v1/leaderboards")
    text = client.get("/metrics").text
    served: dict[str, dict[str, set[str]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            for label, value in sample.labels.items():
                served.setdefault(sample.name, {}).setdefault(label, set()).add(value)
            served.setdefault(sample.name, {})
    named = 0
    for expression in expressions():
        metrics = re.findall(r"(kernelcup_\w+)(?:\{(\w+)=\"(\w+)\"\})?", expression)
        grouped = {
            label.strip() for some in re.findall(r"by \(([^)]*)\)", expression) for label in some.split(",")
        }
        for name, label, value in metrics:
            assert name in served, expression
            assert grouped - ADDED <= served[name].keys(), expression
            if label and label != "status":
                assert value in served[name][label], expression
            named += 1
    assert named >= 20
