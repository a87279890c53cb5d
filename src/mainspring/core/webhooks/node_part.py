"""What a node needs to hand events over and to deliver them."""

from __future__ import annotations

from typing import NamedTuple

from ..declaring.handler import Handler
from .endpoints import MOST_ENDPOINTS
from .hand_over import AT_ONCE, SYSTEM_JOB, EventHandOver
from .subscriptions import Subscriptions

CONCURRENCY = AT_ONCE * MOST_ENDPOINTS
"""Deliveries that one node runs at once: as many as the limits of all endpoints admit, so that no receiver that hangs
keeps another one waiting."""
PATIENCE = 3.0
"""Seconds that requests under way get when a node stops; what has no answer by then is sent again by another node."""
POLL_INTERVAL = 1.0
"""Seconds until a node notices deliveries that another process has added."""


class NodeWebhooks(NamedTuple):
    subscriptions: Subscriptions
    hand_over: EventHandOver
    handler: Handler

    @property
    def names(self) -> frozenset[str]:
        """The handlers of the worker that delivers."""
        return frozenset({SYSTEM_JOB})

    def get(self, name: str) -> Handler:
        return self.handler
