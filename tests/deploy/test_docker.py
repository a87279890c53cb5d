"""The image and the compose file: linted, and the entry point of the image run without a container."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from mainspring.cli.commands.init import starter
from mainspring.config.settings import Settings
from tests.deploy.files import BIN, DEPLOY, compose, dockerfile, exec_form, image_settings, run
from tests.servers import free_port
from tests.support import DEADLINE, until_blocking

DOCKERFILE = DEPLOY / "docker" / "Dockerfile"
KEYS_OF_SERVICES = {
    *("image", "command", "environment", "secrets", "volumes", "ports", "deploy", "ulimits", "healthcheck", "restart"),
    *("depends_on", "init", "read_only", "tmpfs", "cap_drop", "security_opt", "stop_grace_period", "shm_size"),
}
"""Those of the compose specification that we use."""


def test_the_image_passes_the_linter() -> None:
    done = run(BIN / "hadolint", DOCKERFILE)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_yaml_files_pass_the_linter() -> None:
    files = [file for file in DEPLOY.rglob("*.yaml") if "templates" not in file.parts]
    assert len(files) > 8
    done = run(BIN / "yamllint", "--strict", "-c", DEPLOY / ".yamllint.yaml", *files)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_runs_as_an_ordinary_user_and_has_no_compiler() -> None:
    final = dockerfile()
    (user,) = final["USER"]
    assert all(part.isdigit() and int(part) > 0 for part in user.split(":")), (
        "a number, so that runAsNonRoot can check it"
    )
    assert "pip" not in " ".join(final["RUN"])
    assert [text.split()[0] for text in final["FROM"]] == ["python:3.13-slim"]
    assert final["STOPSIGNAL"] == ["SIGTERM"]


def test_the_entry_point_becomes_healthy_and_stops_in_time(tmp_path: Path) -> None:
    """Exactly the commands of the Dockerfile, with free ports and folders of this test instead of /app and /data."""
    ports = {"8700": free_port(), "9464": free_port()}
    places = {"/app": str(tmp_path / "app"), "/data": str(tmp_path / "data")}
    for place in places.values():
        Path(place).mkdir()
    for name in ("jobs.py", "mainspring.toml"):
        (tmp_path / "app" / name).write_text(starter(name))

    def here(text: str) -> str:
        for written, actual in (places | {name: str(port) for name, port in ports.items()}).items():
            text = text.replace(written, actual)
        return text

    final = dockerfile()
    ours = {name: here(value) for name, value in image_settings().items()} | {"PATH": f"{BIN}:{os.environ['PATH']}"}
    environ = {"MAINSPRING_PORT": str(ports["8700"]), "HOME": str(tmp_path), **ours}
    command = [*exec_form(final["ENTRYPOINT"][0]), *exec_form(final["CMD"][0])]
    health = [here(word) for word in exec_form(final["HEALTHCHECK"][0])]
    folder, proxied = here(final["WORKDIR"][0]), {"http_proxy": "http://127.0.0.1:1"}  # as Docker passes on its own
    log = tmp_path / "log"
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=folder, env=environ, stdout=output, stderr=output)
    try:

        def healthy() -> bool:
            assert process.poll() is None, log.read_text()
            return subprocess.run(health, cwd=folder, env=environ | proxied, capture_output=True).returncode == 0

        until_blocking(healthy)
        assert (tmp_path / "data" / "jobs.db").exists(), "SQLite is in the volume"
        process.send_signal(signal.SIGTERM)
        assert process.wait(Settings().stop_timeout + DEADLINE) == 0, log.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert subprocess.run(health, cwd=folder, env=environ, capture_output=True).returncode != 0


def test_the_compose_file_is_what_the_specification_knows() -> None:
    document = compose()
    services = document["services"]
    assert set(document) == {"name", "x-mainspring", "services", "volumes", "secrets"}
    for name, service in services.items():
        assert set(service) <= KEYS_OF_SERVICES, name
        assert set(service["secrets"]) <= set(document["secrets"])
        assert {volume.partition(":")[0] for volume in service.get("volumes", ())} <= set(document["volumes"])
        assert set(service.get("depends_on", ())) <= set(services)
    assert all("MAINSPRING_DATABASE_URL" not in service["environment"] for service in services.values())
    assert services["postgres"]["healthcheck"]["test"][0] == "CMD"
    waits = services["worker"]["depends_on"]
    assert waits["migrate"]["condition"] == "service_completed_successfully"
    assert [services[role]["deploy"]["replicas"] for role in ("scheduler", "worker")] == [2, 2]
