"""A real Prometheus for tests, and its `promtool`: Debian's package, installed or unpacked beside the virtual
environment. Nothing is set up on the system: no user, no service.

    python -m tests.prometheus_server        fetches it where it is missing
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from tests.servers import _end_with_parent, free_port

PATIENCE = 60.0
_FOLDER = Path(sys.prefix) / "prometheus"


class Prometheus:
    """It scrapes these addresses (`127.0.0.1:8700`) every second and judges the rules as often."""

    def __init__(self, folder: Path, targets: list[str], rules: Path) -> None:
        self._folder, self.port = folder, free_port()
        self._config = folder / "prometheus.yml"
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rules)],
            "scrape_configs": [{"job_name": "mainspring", "static_configs": [{"targets": targets}]}],
        }
        self._config.write_text(json.dumps(config))  # JSON is YAML
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        options = {
            "config.file": self._config,
            "storage.tsdb.path": self._folder / "data",
            "web.listen-address": f"127.0.0.1:{self.port}",
            "log.level": "warn",
        }
        with (self._folder / "prometheus.log").open("ab") as log:
            self._process = subprocess.Popen(
                [program("prometheus"), *(f"--{name}={value}" for name, value in options.items())],
                stdout=log,
                stderr=log,
                preexec_fn=_end_with_parent,
            )
        self._wait_until_ready(self._process)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(PATIENCE)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples of now: each with `metric` and `value`."""
        found = self._get(f"query?query={urllib.parse.quote(expression)}")["result"]
        assert isinstance(found, list)
        return found

    def firing(self) -> set[tuple[str, str]]:
        """Alert and job of all that fire now."""
        alerts = self._get("alerts")["alerts"]
        labels = [alert["labels"] for alert in alerts if alert["state"] == "firing"]
        return {(label["alertname"], label.get("job_name", "")) for label in labels}

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}", timeout=10) as answer:
            return json.load(answer)["data"]

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if process.poll() is not None:
                said = (self._folder / "prometheus.log").read_text()[-2000:]
                raise RuntimeError(f"Prometheus did not start: {said}")
            with suppress(urllib.error.URLError, OSError):
                if self._get("status/flags")["config.file"] != str(self._config):
                    raise RuntimeError(f"another server answers on port {self.port}")
                return
            time.sleep(0.02)
        raise RuntimeError("Prometheus did not answer in time")


@cache
def program(name: str) -> str:
    """`prometheus` or `promtool`."""
    installed = shutil.which(name)
    if installed is not None:
        return installed
    unpacked = _FOLDER / "usr" / "bin" / name
    if not unpacked.exists():
        _fetch()
    return str(unpacked)


def _fetch() -> None:
    """Unpacked aside, then moved: several test processes may do it at once."""
    with tempfile.TemporaryDirectory(prefix="mainspring-prometheus-", dir=_FOLDER.parent) as aside:
        download = ["apt-get", "download", "-q", "prometheus"]
        got = subprocess.run(download, cwd=aside, capture_output=True)
        if got.returncode != 0 and os.geteuid() == 0:
            subprocess.run(["apt-get", "update", "-qq"], check=False, capture_output=True)
            got = subprocess.run(download, cwd=aside, capture_output=True)
        packages = list(Path(aside).glob("*.deb"))
        if not packages:
            said = got.stderr.decode(errors="replace").strip()
            raise RuntimeError(f"Prometheus is needed; install it: apt-get install prometheus ({said})")
        subprocess.run(["dpkg-deb", "-x", str(packages[0]), str(Path(aside) / "root")], check=True)
        with suppress(OSError):  # somebody was faster
            (Path(aside) / "root").rename(_FOLDER)


if __name__ == "__main__":
    print(program("prometheus"))
