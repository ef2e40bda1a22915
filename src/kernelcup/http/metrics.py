"""Figures for Prometheus."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Iterable
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kernelcup.app import stats
from kernelcup.app.queue.estimates import DeviceQueue, queue_status
from kernelcup.app.upkeep import Check
from kernelcup.engine.database import Database
from kernelcup.errors import StorageUnavailable
from kernelcup_harness.protocol import Verdict

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The metrics of one process, in their own registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "kernelcup_http_requests",
            "Requests by route and status",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "kernelcup_http_request_seconds",
            "Seconds until a request was served",
            ["route"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        self._unavailable = Counter(
            "kernelcup_unavailable",
            "Answers 503, and refused connections, by cause",
            ["cause"],
            registry=self.registry,
        )
        self._watchers = Gauge(
            "kernelcup_event_watchers", "Clients that follow live events", registry=self.registry
        )

    def watch_streams(self, count: Callable[[], int]) -> None:
        """Report the number of clients that follow live events at each scrape."""
        self._watchers.set_function(count)

    def unavailable(self, cause: str) -> None:
        """Count an answer 503, or a refused connection."""
        self._unavailable.labels(cause).inc()

    def request(self, method: str, route: str, status: int, seconds: float | None) -> None:
        """Count one request, with the time that it took unless it had to wait."""
        self._requests.labels(method, route, str(status)).inc()
        if seconds is not None:
            self._seconds.labels(route).observe(seconds)

    def watch_database(
        self, db: Database, clock: Callable[[], datetime], checks: Callable[[], list[Check]]
    ) -> None:
        """Report the state of the queue, and what else the database has, at each scrape."""
        self.registry.register(DatabaseCollector(db, clock, checks))

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)


class DatabaseCollector(Collector):
    """Reads the queue, verdicts, webhooks, the size and what is out of order from the database."""

    def __init__(
        self, db: Database, clock: Callable[[], datetime], checks: Callable[[], list[Check]]
    ) -> None:
        self._db = db
        self._clock = clock
        self._checks = checks
        self._last_run: int | None = None
        self._verdicts: Counts[str] = Counts()

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return the metrics' names without asking the database."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Return the metrics."""
        now = self._clock()
        try:
            queues = queue_status(self._db, now)
            found = stats.health(self._db, self._last_run)
            checks = self._checks()
        except StorageUnavailable:
            return []  # the process's own counters are still reported
        self._last_run = found.newest_run
        self._verdicts.update(found.verdicts)
        verdicts = CounterMetricFamily("kernelcup_verdicts", "Runs by verdict", labels=["verdict"])
        for verdict in Verdict:
            verdicts.add_metric([verdict.value], self._verdicts[verdict.value])
        hooks = GaugeMetricFamily(
            "kernelcup_webhooks_failing", "Webhooks whose last delivery failed", labels=["state"]
        )
        hooks.add_metric(["retried"], found.retried_webhooks)
        hooks.add_metric(["disabled"], found.disabled_webhooks)
        problems = GaugeMetricFamily("kernelcup_problems", "What is out of order", labels=["kind"])
        for kind in sorted({check.kind for check in checks}):
            problems.add_metric([kind], sum(check.kind == kind and not check.good for check in checks))
        size = GaugeMetricFamily("kernelcup_database_bytes", "Its size", value=found.database_bytes)
        return [*_queue_metrics(queues, now), verdicts, hooks, problems, size]


def _queue_metrics(queues: Iterable[DeviceQueue], now: datetime) -> list[Metric]:
    queued = GaugeMetricFamily("kernelcup_jobs_queued", "Jobs that wait", labels=["device"])
    running = GaugeMetricFamily("kernelcup_jobs_running", "Jobs that run", labels=["device"])
    slots = GaugeMetricFamily("kernelcup_slots", "Jobs that can run at once", labels=["device"])
    oldest = GaugeMetricFamily("kernelcup_oldest_wait_seconds", "Longest wait so far", labels=["device"])
    for queue in queues:
        queued.add_metric([queue.device], queue.queued)
        running.add_metric([queue.device], queue.running)
        slots.add_metric([queue.device], queue.slots)
        since = queue.oldest_queued_at
        oldest.add_metric([queue.device], (now - since).total_seconds() if since else 0.0)
    return [queued, running, slots, oldest]
