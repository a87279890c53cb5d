"""The server's clock: the reference for every due time and every lease.

MongoDB counts milliseconds, Mainspring microseconds: the server's now is the beginning of its millisecond. Inside
update pipelines it is an expression that the server evaluates, so that no lease ever depends on the clock of a client.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Protocol

from ....model.time.instants import Micros, seconds_to_micros

_EPOCH = datetime(1970, 1, 1)
_TICK = timedelta(microseconds=1)


class Time(Protocol):
    """`now` is an aggregation expression; `told` reads what a `hello` command answered."""

    def now(self) -> Any: ...
    def told(self, hello: dict[str, Any]) -> Micros: ...


class ServerTime:
    def now(self) -> Any:
        return {"$multiply": [{"$toLong": "$$NOW"}, 1000]}

    def told(self, hello: dict[str, Any]) -> Micros:
        return int((hello["localTime"] - _EPOCH) // _TICK)


def later(time: Time, seconds: float) -> Any:
    """The expression for so many seconds from the server's now."""
    return {"$add": [time.now(), seconds_to_micros(seconds)]}
