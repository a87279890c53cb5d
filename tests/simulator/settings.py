"""The settings of every simulated node: short enough that much happens in a minute or two."""

from __future__ import annotations

from mainspring.core.engine.node import NodeSettings

SETTINGS = NodeSettings(
    concurrency=3,
    lease=12.0,
    heartbeat=4.0,
    poll_interval=8.0,
    rescue_interval=3.0,
    sweep_interval=3.0,
    retention_interval=120.0,
    stop_timeout=8.0,
    stop_reserve=3.0,
)
