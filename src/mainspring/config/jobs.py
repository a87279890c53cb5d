"""The settings that jobs follow unless they say otherwise, and their rules. `config.Settings` takes them in.

>>> RULES["tenant_retry"]("tenant_retry", {"initial": "5s", "max": "1m"}).max
60.0
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..core.declaring.job_specs import JobDefaults
from ..core.declaring.options import OPTIONS
from ..model.errors import InvalidValue, nearest
from ..model.limits import MAX_CONCURRENCY
from ..model.policies import Retry, check_max_attempts, check_retry
from ..model.values.reading import duration
from .monitoring import MonitoringSettings
from .values import from_text, number, switch

_RETRY = tuple(Retry.__struct_fields__)


class JobSettings(MonitoringSettings, frozen=True, kw_only=True):
    """What jobs follow that do not say otherwise; None leaves it to the rules of Mainspring itself."""

    retry_max_attempts: int | None = None
    retry_policy: Retry | None = None
    window_max_span: float | None = None
    tenant_concurrency: int | None = None
    tenant_max_attempts: int | None = None
    tenant_retry: Retry | None = None
    tenant_continue_on_failure: bool = True

    @property
    def job_defaults(self) -> JobDefaults:
        options = {name: getattr(self, option.setting) for name, option in OPTIONS.items() if option.setting}
        return JobDefaults(options, self.window_max_span)


def _retry(field: str, value: Any) -> Retry:
    """The name of a preset, or a table of what `Retry` takes."""
    if not isinstance(value, Mapping):
        return check_retry(field, value)
    for name in value:
        if name not in _RETRY:
            guess = nearest(str(name), _RETRY)
            raise InvalidValue(field, name, ", ".join(_RETRY), f"Did you mean {guess!r}?" if guess else "")
    try:
        return Retry(**value)
    except InvalidValue as error:
        raise InvalidValue(f"{field}, {error.field}", error.value, error.allowed, error.remedy) from None


RULES: dict[str, Callable[[str, Any], Any]] = {
    "retry_max_attempts": lambda field, value: check_max_attempts(field, from_text(value)),
    "retry_policy": _retry,
    "window_max_span": duration,
    "tenant_concurrency": number(1, MAX_CONCURRENCY),
    "tenant_max_attempts": lambda field, value: check_max_attempts(field, from_text(value)),
    "tenant_retry": _retry,
    "tenant_continue_on_failure": switch,
}
