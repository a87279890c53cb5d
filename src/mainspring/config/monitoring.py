"""The settings of metrics and pings, and their rules. `config.Settings` takes them in.

>>> RULES["metrics_port"]("metrics_port", "9100")
9100
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .security import SecuritySettings
from .values import number, switch


class MonitoringSettings(SecuritySettings, frozen=True, kw_only=True):
    """What a process shows of itself besides the HTTP interface, and whom its jobs may ping."""

    metrics_port: int | None = None
    metrics_jobs: int = 1_000
    private_urls: bool = False


RULES: dict[str, Callable[[str, Any], Any]] = {
    "metrics_port": number(0, 65_535),
    "metrics_jobs": number(1, 100_000),
    "private_urls": switch,
}
