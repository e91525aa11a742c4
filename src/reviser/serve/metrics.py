"""Prometheus metrics of a server; they contain no texts, names or keys."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 60, 120, 300, 600)


class Metrics:
    """The metrics of one server, in their own registry."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "reviser_requests", "Requests answered.", ["route", "status"], registry=registry
        )
        self.waiting = Gauge(
            "reviser_waiting", "Requests waiting for the engine.", registry=registry
        )
        self.running = Gauge(
            "reviser_running", "Requests that the engine works on.", registry=registry
        )
        self.ready = Gauge("reviser_ready", "1 if the server accepts requests.", registry=registry)
        self.actions = Counter("reviser_actions", "Actions chosen by the model.", registry=registry)
        self.first_edit = Histogram(
            "reviser_first_edit_seconds",
            "Seconds from acceptance to the first action.",
            buckets=SECONDS,
            registry=registry,
        )
        self.completion = Histogram(
            "reviser_completion_seconds",
            "Seconds from acceptance to the finished text.",
            buckets=SECONDS,
            registry=registry,
        )
        self.failures = Counter("reviser_engine_failures", "Engine failures.", registry=registry)

    def page(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self.registry)
