"""Kubernetes manifests and the Helm chart against the schemas of Kubernetes, and against each other."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jsonschema
import kubernetes_validate
import pytest
import yaml

from mainspring import Mainspring
from mainspring.config.load import load
from tests.deploy.files import BIN, CHART, DEPLOY, HELM_VALUES, chart, manifests, run

VERSIONS = ("1.28", "1.37")
OTHERS = ("keda.sh/v1alpha1", "kustomize.config.k8s.io/v1beta1")
"""Kinds that are no part of Kubernetes itself."""
SCALED_OBJECT = {
    "type": "object",
    "required": ["scaleTargetRef", "triggers"],
    "additionalProperties": False,
    "properties": {
        "scaleTargetRef": {"type": "object", "required": ["name"]},
        "minReplicaCount": {"type": "integer"},
        "maxReplicaCount": {"type": "integer"},
        "pollingInterval": {"type": "integer"},
        "cooldownPeriod": {"type": "integer"},
        "triggers": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type", "metadata"],
                "additionalProperties": False,
                "properties": {
                    "type": {"const": "metrics-api"},
                    "metadata": {"type": "object", "additionalProperties": {"type": "string"}},
                    "authenticationRef": {"type": "object", "required": ["name"]},
                },
            },
        },
    },
}
"""What we use of KEDA's ScaledObject: the values in `metadata` of a trigger are texts."""

SOURCES = {"plain": manifests, "chart": chart}


@pytest.fixture(params=SOURCES)
def documents(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return SOURCES[request.param]()


def of_kind(documents: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [each for each in documents if each["kind"] == kind]


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_knows_every_field(documents: list[dict[str, Any]], version: str) -> None:
    checked = [each for each in documents if each["apiVersion"] not in OTHERS]
    for document in checked:
        kubernetes_validate.validate(document, version, strict=True)
    assert len(checked) >= 9


def test_every_pod_is_confined(documents: list[dict[str, Any]]) -> None:
    pods = [each["spec"]["template"]["spec"] for each in documents if each["kind"] in ("Deployment", "Job")]
    assert len(pods) == 4
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert (pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (False, False)
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_the_api_serves_until_its_service_sends_no_more_requests(documents: list[dict[str, Any]]) -> None:
    for deployment in of_kind(documents, "Deployment"):
        pod = deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        wait = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command")
        if deployment["metadata"]["name"].endswith("-api"):
            assert wait == ["sleep", "5"]
            assert pod["terminationGracePeriodSeconds"] > load({}, {}, None).stop_timeout + 5
        else:
            assert wait is None


def test_every_selector_finds_its_pods(documents: list[dict[str, Any]]) -> None:
    deployments = of_kind(documents, "Deployment")
    labels = [each["spec"]["template"]["metadata"]["labels"] for each in deployments]
    selectors = [
        *(each["spec"]["selector"]["matchLabels"] for each in deployments),
        *(each["spec"]["selector"]["matchLabels"] for each in of_kind(documents, "PodDisruptionBudget")),
        *(each["spec"]["selector"] for each in of_kind(documents, "Service")),
    ]
    assert len(selectors) == 7
    for selector in selectors:
        assert len([found for found in labels if selector.items() <= found.items()]) == 1, selector


def test_two_schedulers_survive_a_node(documents: list[dict[str, Any]]) -> None:
    (scheduler,) = [each for each in of_kind(documents, "Deployment") if each["metadata"]["name"].endswith("scheduler")]
    assert scheduler["spec"]["replicas"] == 2
    assert (
        scheduler["spec"]["template"]["spec"]["topologySpreadConstraints"][0]["topologyKey"] == "kubernetes.io/hostname"
    )


def test_keda_asks_the_route_for_scaling(documents: list[dict[str, Any]]) -> None:
    (scaled,) = of_kind(documents, "ScaledObject")
    (authentication,) = of_kind(documents, "TriggerAuthentication")
    jsonschema.validate(scaled["spec"], SCALED_OBJECT)
    (trigger,) = scaled["spec"]["triggers"]
    address = urlsplit(trigger["metadata"]["url"])
    services = [each["metadata"]["name"] for each in of_kind(documents, "Service")]
    assert [str(address.hostname).partition(".")[0]] == services
    assert (address.port, address.path) == (8700, "/api/v1/scale")
    assert parse_qs(address.query) == {"max": [str(scaled["spec"]["maxReplicaCount"])]}
    assert trigger["metadata"]["valueLocation"] == "wanted"
    assert trigger["authenticationRef"]["name"] == authentication["metadata"]["name"]
    deployments = [each["metadata"]["name"] for each in of_kind(documents, "Deployment")]
    assert scaled["spec"]["scaleTargetRef"]["name"] in deployments


async def test_the_autoscaler_of_kubernetes_uses_a_metric_that_exists() -> None:
    (autoscaler,) = of_kind(manifests(), "HorizontalPodAutoscaler")
    (metric,) = autoscaler["spec"]["metrics"]
    app = Mainspring("memory://", metrics_port=0)
    app.job("report")(lambda: None)
    async with app:
        page = (await app.monitoring.metrics_page()).decode()
    labels = metric["external"]["metric"]["selector"]["matchLabels"]
    assert f'{metric["external"]["metric"]["name"]}{{queue="{labels["queue"]}"}}' in page
    assert autoscaler["spec"]["scaleTargetRef"]["name"] == "mainspring-worker"


def test_the_kustomization_names_what_is_applied_together() -> None:
    (kustomization,) = of_kind(manifests(), "Kustomization")
    present = {file.name for file in (DEPLOY / "kubernetes").glob("*.yaml")}
    apart = {"kustomization.yaml", "secret.example.yaml", "migrate.yaml", "keda.yaml", "hpa.yaml"}
    assert set(kustomization["resources"]) == present - apart


def test_helm_accepts_the_chart() -> None:
    done = run(BIN / "helm", "lint", "--strict", CHART, *HELM_VALUES)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ((), "image.repository"),
        ((*HELM_VALUES, "--set", "settings.lease=60"), "lease"),  # a number: YAML would turn a large one into 1e+06
        ((*HELM_VALUES, "--set", "roles.worker.replica=3"), "replica"),
        ((*HELM_VALUES, "--set", "app=jobs"), "app"),
    ],
)
def test_the_schema_of_values_refuses_mistakes(values: tuple[str, ...], named: str) -> None:
    done = run(BIN / "helm", "template", "shop", CHART, *values)
    assert done.returncode != 0
    assert named in done.stderr


def test_values_reach_the_pods() -> None:
    options = ("--set-string", "settings.concurrency=40", "--set-string", "settings.api_tokens=false")
    more = ("--set", "migrate.enabled=false", "--set", "networkPolicy.enabled=false", "--set", "app=shop.jobs:app")
    done = run(BIN / "helm", "template", "shop", CHART, "--set", "image.repository=r/jobs", *options, *more)
    found = [document for document in yaml.safe_load_all(done.stdout) if document]
    assert {each["kind"] for each in found} == {"Deployment", "PodDisruptionBudget", "Service"}
    for deployment in of_kind(found, "Deployment"):
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        environ = {each["name"]: each["value"] for each in container["env"]}
        wanted = {"MAINSPRING_CONCURRENCY": "40", "MAINSPRING_API_TOKENS": "false", "MAINSPRING_AUTO_MIGRATE": "true"}
        assert wanted.items() <= environ.items()
        assert "shop.jobs:app" in container["args"]


def test_the_schema_of_values_describes_every_value() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(values) == set(schema["properties"]) - {"global"}
