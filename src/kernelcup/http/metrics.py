"""Figures for Prometheus."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kernelcup.app import stats
from kernelcup.app.queue.estimates import queue_status
from kernelcup.errors import StorageUnavailable
from kernelcup.http.state import Platform
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

    def watch_database(self, platform: Platform) -> None:
        """Report the state of the queue, and what else the database has, at each scrape."""
        self.registry.register(DatabaseCollector(platform))

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)


class DatabaseCollector(Collector):
    """Reads the queue, verdicts, webhooks, the size and what is out of order from the database."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._last_run: int | None = None
        self._verdicts: Counts[str] = Counts()

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return the metrics' names without asking the database."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Return the metrics."""
        db, now = self._platform.db, self._platform.clock()
        try:
            queues = queue_status(db, now)
            found = stats.health(db, self._last_run)
            checks = self._platform.checks()
        except StorageUnavailable:
            return  # the process's own counters are still reported
        self._last_run = found.newest_run
        self._verdicts.update(found.verdicts)
        waits = {q.device: (now - (q.oldest_queued_at or now)).total_seconds() for q in queues}
        verdicts = CounterMetricFamily("kernelcup_verdicts", "Runs by verdict", labels=["verdict"])
        for verdict in Verdict:
            verdicts.add_metric([verdict.value], self._verdicts[verdict.value])
        yield verdicts
        yield _gauge("jobs_queued", "Jobs that wait", "device", {q.device: q.queued for q in queues})
        yield _gauge("jobs_running", "Jobs that run", "device", {q.device: q.running for q in queues})
        yield _gauge("slots", "Jobs that can run at once", "device", {q.device: q.slots for q in queues})
        yield _gauge("oldest_wait_seconds", "Longest wait so far", "device", waits)
        hooks = {"retried": found.retried_webhooks, "disabled": found.disabled_webhooks}
        yield _gauge("webhooks_failing", "Webhooks whose last delivery failed", "state", hooks)
        problems = dict.fromkeys((check.kind for check in checks), 0)
        problems |= Counts(check.kind for check in checks if check.state != "ok")
        yield _gauge("problems", "What is out of order", "kind", problems)
        yield GaugeMetricFamily("kernelcup_database_bytes", "Its size", value=found.database_bytes)


def _gauge(name: str, about: str, label: str, values: Mapping[str, float]) -> Metric:
    gauge = GaugeMetricFamily(f"kernelcup_{name}", about, labels=[label])
    for key, value in values.items():
        gauge.add_metric([key], value)
    return gauge
