"""What all files of `deploy/` say about Mainspring is what its code says."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from mainspring.cli.commands.init import starter
from mainspring.cli.root import root
from mainspring.config.load import load
from mainspring.config.settings import Settings
from mainspring.observe.metrics.server import MetricsServer
from mainspring.version import VERSION
from tests.deploy.files import CHART, DEPLOY, Process, chart, compose, dockerfile, image_settings, manifests, processes

PROCESSES = {process.name: process for process in processes()}
DEFAULTS = Settings()


def innermost(command: click.Command, context: click.Context, words: list[str]) -> click.Context:
    if not isinstance(command, click.Group) or not words:
        return context
    name, inner, rest = command.resolve_command(context, words)
    assert inner is not None
    return innermost(inner, inner.make_context(name, rest[:], parent=context), rest)


def settings_of(process: Process, tmp_path: Path) -> Settings:
    """Loaded as the process would, with files of this test in the place of mounted ones."""
    (tmp_path / "secret").write_text("postgresql://jobs:secret@db/jobs\n")
    (tmp_path / "mainspring.toml").write_text(starter("mainspring.toml"))
    files = {name: str(tmp_path / "secret") for name in process.settings if name.endswith("_FILE")}
    config = {"MAINSPRING_CONFIG": str(tmp_path / "mainspring.toml")}
    return load({}, process.settings | files | config, None)


@pytest.mark.parametrize("process", PROCESSES.values(), ids=PROCESSES)
def test_every_process_has_settings_arguments_and_time_that_mainspring_accepts(
    process: Process, tmp_path: Path
) -> None:
    settings = settings_of(process, tmp_path)
    assert settings.database_url.startswith("postgresql://"), "from the file of the secret"
    assert process.grace > settings.stop_timeout
    context = innermost(root, root.make_context("mainspring", process.arguments[:]), process.arguments)
    if context.info_name in ("run", "worker"):
        assert context.params["target"] == "jobs:app"
        assert settings.api_tokens, "without authentication nothing but loopback is served"
    assert set(process.probes) <= {"/healthz", "/readyz"}
    allowed = {settings.port, settings.metrics_port} & {DEFAULTS.port, 9464}
    assert set(process.ports) <= allowed


def test_the_same_roles_run_everywhere() -> None:
    wanted = {"scheduler", "worker", "api"}
    for source in ("systemd", "compose", "kubernetes", "helm"):
        names = [name for name in PROCESSES if name.startswith(source)]
        found = {name.rpartition("-")[2].rpartition(" ")[2] for name in names}
        assert found - {"migrate"} == wanted, source


def test_plain_manifests_and_chart_start_the_same_pods() -> None:
    for role in ("scheduler", "worker", "api", "migrate"):
        plain, rendered = PROCESSES[f"kubernetes mainspring-{role}"], PROCESSES[f"helm shop-{role}"]
        assert (plain.arguments, plain.grace, sorted(plain.ports), plain.probes) == (
            rendered.arguments,
            rendered.grace,
            sorted(rendered.ports),
            rendered.probes,
        )
        same = rendered.settings | {"MAINSPRING_PORT": str(DEFAULTS.port)}
        assert plain.settings | {"MAINSPRING_PORT": str(DEFAULTS.port)} == same


def test_probed_paths_are_served() -> None:
    import inspect

    from mainspring.server.routes import health

    served = {route.path for route in health.router.routes}  # type: ignore[attr-defined]
    source = inspect.getsource(MetricsServer)
    for path in {path for process in PROCESSES.values() for path in process.probes}:
        assert path in served
        assert f'"{path}"' in source
    assert "/healthz" in dockerfile()["HEALTHCHECK"][0]


def test_versions_are_those_of_this_release() -> None:
    import yaml

    text = (DEPLOY / "docker" / "Dockerfile").read_text()
    assert text == starter("Dockerfile"), "deploy/docker/Dockerfile and what `mainspring init` writes are the same file"
    assert f"ARG MAINSPRING_VERSION={VERSION}\n" in text
    described = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (described["version"], described["appVersion"]) == (VERSION, VERSION)


def test_ports_are_the_defaults() -> None:
    assert dockerfile()["EXPOSE"] == [f"{DEFAULTS.port} {image_settings()['MAINSPRING_METRICS_PORT']}"]
    assert compose()["services"]["api"]["ports"] == [f"127.0.0.1:{DEFAULTS.port}:{DEFAULTS.port}"]
    for documents in (manifests(), chart()):
        (service,) = [each for each in documents if each["kind"] == "Service"]
        assert [port["port"] for port in service["spec"]["ports"]] == [DEFAULTS.port]
