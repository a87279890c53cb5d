"""What jobs get that do not say otherwise: the application's settings, laid under the options of a declaration.

>>> JobDefaults(retry="patient").under({"queue": "reports"})
{'retry': 'patient', 'queue': 'reports'}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ...model.policies import Retry
from ...model.windows import Limited, window_spec


class JobDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """None is: as if nothing had been set. `max_span` is the longest window that a caller may ask for."""

    max_attempts: int | None = None
    retry: Retry | str | None = None
    max_span: float | None = None
    tenant_concurrency: int | None = None
    tenant_max_attempts: int | None = None
    tenant_retry: Retry | str | None = None
    continue_on_failure: bool | None = None

    def under(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options, and what is set for those that are missing."""
        given = {name: value for name, value in options.items() if value is not None}
        return {**self._missing(given), **given, **self._limited(given)}

    def _missing(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The tries of a job are those of its tenants too, if it names any: they win over what is set for tenants."""
        names = ["max_attempts", "retry"]
        if given.get("tenants", False) is not False:
            names += ["tenant_concurrency", "continue_on_failure"]
            names += [f"tenant_{own}" for own in ("max_attempts", "retry") if own not in given]
        found = {name: getattr(self, name) for name in names}
        return {name: value for name, value in found.items() if value is not None}

    def _limited(self, given: Mapping[str, Any]) -> dict[str, Any]:
        if self.max_span is None or "window" not in given:
            return {}
        spec = window_spec(given["window"])
        if not isinstance(spec, Limited):
            return {"window": Limited(spec, self.max_span)}
        return {"window": spec if spec.max_span is not None else msgspec.structs.replace(spec, max_span=self.max_span)}


NO_DEFAULTS = JobDefaults()
