"""What a server counts, for Prometheus; no text, no names, no keys."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 60, 120, 300, 600)


class Metrics:
    """The counters of one server, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "reviser_requests", "Requests answered.", ["route", "status"], registry=registry
        )
        self.waiting = Gauge(
            "reviser_waiting", "Requests that wait for the engine.", registry=registry
        )
        self.running = Gauge(
            "reviser_running", "Requests that the engine works on.", registry=registry
        )
        self.ready = Gauge("reviser_ready", "1 if requests are taken.", registry=registry)
        self.actions = Counter("reviser_actions", "Actions of the model.", registry=registry)
        self.tokens = Counter(
            "reviser_tokens_written", "Tokens by which texts grew.", registry=registry
        )
        self.first_edit = Histogram(
            "reviser_first_edit_seconds",
            "From acceptance to the first action.",
            buckets=SECONDS,
            registry=registry,
        )
        self.completion = Histogram(
            "reviser_completion_seconds",
            "From acceptance to the end of a text.",
            buckets=SECONDS,
            registry=registry,
        )
        self.ended = Counter(
            "reviser_ended", "Texts that ended, by reason.", ["reason"], registry=registry
        )
        self.cancelled = Counter(
            "reviser_cancelled", "Texts cancelled, by whom.", ["by"], registry=registry
        )
        self.refused = Counter(
            "reviser_refused", "Requests not taken, by reason.", ["reason"], registry=registry
        )
        self.failures = Counter(
            "reviser_engine_failures", "Times the engine failed.", registry=registry
        )

    def page(self) -> bytes:
        """As Prometheus reads it."""
        return generate_latest(self.registry)
