"""The manifests in deploy/ are valid, and agree with the server's limits and metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from reviser.engines.vllm_process import PROCESSOR
from reviser.serve.limits import Limits

validation = pytest.importorskip("kubernetes_validate")

FOLDER = Path(__file__).parents[1] / "deploy" / "kubernetes"
FILES = ["reviser.yaml", "vllm.yaml"]
VERSION = "1.31"


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


@pytest.mark.parametrize("name", FILES)
def test_manifests_are_valid(name: str) -> None:
    for document in documents(name):
        validation.validate(document, VERSION, strict=True)


def test_a_misspelled_field_is_found() -> None:
    (deployment, *_) = documents("reviser.yaml")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    container["readynessProbe"] = container.pop("readinessProbe")
    with pytest.raises(validation.ValidationError):
        validation.validate(deployment, VERSION, strict=True)


@pytest.mark.parametrize("name", FILES)
def test_every_container_has_probes_and_time_to_drain(name: str) -> None:
    found = [d for d in documents(name) if d["kind"] == "Deployment"]
    for document in found:
        assert document["spec"]["selector"]["matchLabels"].items() <= (
            document["spec"]["template"]["metadata"]["labels"].items()
        )
        spec = document["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        assert {"startupProbe", "readinessProbe", "livenessProbe"} <= container.keys()
        if document["metadata"]["name"] == "reviser":
            pause = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
            assert spec["terminationGracePeriodSeconds"] > pause + Limits.drain_seconds + 15


def test_the_server_asks_the_service_in_front_of_vllm() -> None:
    found = {(d["kind"], d["metadata"]["name"]): d["spec"] for d in documents("vllm.yaml")}
    (container,) = found["Deployment", "reviser"]["template"]["spec"]["containers"]
    service, vllm = found["Service", "vllm"], found["Deployment", "vllm"]["template"]
    (port,) = service["ports"]
    assert [word for word in container["args"] if word.startswith("--url=")] == [
        f"--url=http://vllm:{port['port']}"
    ]
    assert service["selector"].items() <= vllm["metadata"]["labels"].items()
    assert vllm["spec"]["containers"][0]["ports"] == [{"containerPort": port["port"]}]
    assert f'"{PROCESSOR}"' in (FOLDER / "vllm.yaml").read_text()


def test_replicas_follow_a_metric_that_the_server_has() -> None:
    scaler = next(d for d in documents("reviser.yaml") if d["kind"] == "HorizontalPodAutoscaler")
    (metric,) = scaler["spec"]["metrics"]
    (rule,) = documents("prometheus-adapter.yaml")[0]["rules"]["custom"]
    assert rule["name"]["as"] == metric["pods"]["metric"]["name"]
    series = rule["seriesQuery"].partition("_bucket")[0]
    source = Path(__file__).parents[1] / "src" / "reviser" / "serve" / "metrics.py"
    assert f'"{series}"' in source.read_text()
