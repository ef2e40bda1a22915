"""Figures for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from kernelcup.errors import StorageUnavailable
from kernelcup.services.queue.estimates import queue_status
from kernelcup.storage.engine.database import Database

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
        self.watchers = Gauge(
            "kernelcup_event_watchers", "Clients that follow live events", registry=self.registry
        )

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def watch_queue(self, db: Database, clock: Callable[[], datetime]) -> None:
        """Report the state of the queue at each scrape."""
        self.registry.register(QueueCollector(db, clock))

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)


class QueueCollector(Collector):
    """Reads the queue from the database."""

    def __init__(self, db: Database, clock: Callable[[], datetime]) -> None:
        self._db = db
        self._clock = clock

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return the metrics' names without asking the database."""
        return []

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Return the metrics of all devices."""
        now = self._clock()
        try:
            queues = queue_status(self._db, now)
        except StorageUnavailable:
            return []  # the process's own counters are still reported
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
