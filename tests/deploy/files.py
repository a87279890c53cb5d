"""The files of `deploy/`, read: the processes they start, each with its arguments, settings and time to stop."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "mainspring"
BIN = Path(sys.executable).parent
HELM_VALUES = ("--set", "image.repository=registry.example.com/jobs", "--set", "keda.enabled=true")


@dataclass
class Process:
    """A process that a file starts: its arguments after `mainspring`, and what surrounds it."""

    name: str
    arguments: list[str]
    settings: dict[str, str]
    grace: float
    ports: list[int] = field(default_factory=list)
    probes: list[str] = field(default_factory=list)


def run(*command: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=120)


@cache
def dockerfile() -> dict[str, list[str]]:
    """The instructions of the last stage by their names, each as the text behind the name."""
    text = (DEPLOY / "docker" / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    last = max(number for number, line in enumerate(lines) if line.startswith("FROM "))
    found: dict[str, list[str]] = {}
    for line in lines[last:]:
        name, _, rest = line.partition(" ")
        found.setdefault(name, []).append(" ".join(rest.split()) if name != "HEALTHCHECK" else rest.strip())
    return found


def image_settings() -> dict[str, str]:
    return dict(pair.split("=", 1) for text in dockerfile()["ENV"] for pair in shlex.split(text))


def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((DEPLOY / "docker" / "compose.yaml").read_text())
    return document


def manifests() -> list[dict[str, Any]]:
    files = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    return [document for file in files for document in yaml.safe_load_all(file.read_text())]


@cache
def chart_text() -> str:
    done = run(BIN / "helm", "template", "shop", CHART, *HELM_VALUES)
    assert done.returncode == 0, done.stderr
    return done.stdout


def chart() -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(chart_text()) if document]


def unit() -> dict[str, list[str]]:
    """The unit of systemd: all values of each directive."""
    found: dict[str, list[str]] = {}
    for line in (DEPLOY / "systemd" / "mainspring@.service").read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def env_file(name: str) -> dict[str, str]:
    lines = (DEPLOY / "systemd" / f"{name}.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def processes() -> Iterator[Process]:
    yield from _units()
    services = compose()["services"]
    for name, service in services.items():
        if name != "postgres":
            settings = image_settings() | service["environment"]
            grace = float(service["stop_grace_period"].removesuffix("s"))
            yield Process(f"compose {name}", service["command"], settings, grace)
    config = next(each["data"] for each in manifests() if each["kind"] == "ConfigMap")
    for source, documents in (("kubernetes", manifests()), ("helm", chart())):
        for document in documents:
            if document["kind"] in ("Deployment", "Job"):
                yield _pod(f"{source} {document['metadata']['name']}", document["spec"]["template"]["spec"], config)


def _units() -> Iterator[Process]:
    directives = unit()
    _, *arguments = shlex.split(directives["ExecStart"][0])
    for role in ("scheduler", "worker", "api"):
        own = dict(pair.split("=", 1) for pair in directives["Environment"][0].split())
        settings = own | env_file("common") | env_file(role)
        words = [each.replace("%i", role) for each in arguments]
        yield Process(f"systemd {role}", words, settings, float(directives["TimeoutStopSec"][0]))


def _pod(name: str, pod: dict[str, Any], config: dict[str, str]) -> Process:
    (container,) = pod["containers"]
    own = {each["name"]: each["value"] for each in container.get("env", [])}
    ports = {each["name"]: each["containerPort"] for each in container.get("ports", [])}
    probes = [container[kind]["httpGet"] for kind in container if kind.endswith("Probe")]
    assert all(probe["port"] in ports for probe in probes), name
    return Process(
        name,
        container["args"],
        image_settings() | (config if "envFrom" in container else own),
        pod["terminationGracePeriodSeconds"],
        list(ports.values()),
        [probe["path"] for probe in probes],
    )


def exec_form(text: str) -> list[str]:
    """The command of an instruction such as `CMD ["python", "-c", "..."]`."""
    found = re.search(r"\[.*\]$", text)
    assert found, f"not in exec form: {text}"
    command: list[str] = json.loads(found[0])
    return command
