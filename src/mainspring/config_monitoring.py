"""The settings of metrics and pings, and their rules. `config.Settings` takes them in.

>>> RULES["metrics_port"]("metrics_port", "9100")
9100
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .config_security import SecuritySettings, switch
from .model.values import whole


class MonitoringSettings(SecuritySettings, frozen=True, kw_only=True):
    """What a process shows of itself besides the HTTP interface, and whom its jobs may ping."""

    metrics_port: int | None = None
    metrics_jobs: int = 1_000
    private_urls: bool = False


def _number(low: int, high: int) -> Callable[[str, Any], int]:
    def checked(field: str, value: Any) -> int:
        if isinstance(value, str) and re.fullmatch(r"\s*[0-9]{1,9}\s*", value):
            value = int(value)
        return whole(field, value, low, high)

    return checked


RULES: dict[str, Callable[[str, Any], Any]] = {
    "metrics_port": _number(0, 65_535),
    "metrics_jobs": _number(1, 100_000),
    "private_urls": switch,
}
