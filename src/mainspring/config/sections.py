"""Sections of the configuration file: settings that belong together, under shorter names.

>>> list(unfolded({"lease": "1m", "context": {"channel": "shop"}}, "mainspring.toml"))
[('lease', '1m', 'mainspring.toml'), ('channel', 'shop', 'mainspring.toml, [context] channel')]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..model.errors import ConfigurationError, InvalidValue, nearest, shown

SECTIONS: dict[str, dict[str, str]] = {
    "context": {"username": "username", "channel": "channel"},
    "date_range": {"timezone": "timezone", "max_span": "window_max_span"},
    "retry": {"max_attempts": "retry_max_attempts", "policy": "retry_policy"},
    "lock": {"backend": "locks", "redis_url": "redis_url"},
    "tenant": {
        "concurrency": "tenant_concurrency",
        "max_attempts": "tenant_max_attempts",
        "retry": "tenant_retry",
        "continue_on_failure": "tenant_continue_on_failure",
    },
}
"""Each section's keys, and the settings that they stand for."""


def unfolded(table: Mapping[str, Any], source: str) -> Iterator[tuple[str, Any, str]]:
    """Every setting of a file by its own name, with its value and where it stands. Twice the same one is an error."""
    said: dict[str, str] = {}
    for name, value, place in _all(table, source):
        if name in said:
            raise ConfigurationError(f"{name} is set twice: in {said[name]}, and in {place}; remove one of them")
        said[name] = place
        yield name, value, place


def _all(table: Mapping[str, Any], source: str) -> Iterator[tuple[str, Any, str]]:
    for name, value in table.items():
        if name not in SECTIONS:
            yield name, value, source
            continue
        keys = SECTIONS[name]
        if not isinstance(value, Mapping):
            raise InvalidValue(f"{name} (from {source})", value, f"a section [{name}] with {', '.join(keys)}")
        for key, inner in value.items():
            if key not in keys:
                guess = nearest(key, keys)
                hint = f"did you mean {guess!r}?" if guess else f"known are {', '.join(keys)}"
                raise ConfigurationError(f"unknown setting {shown(key)} in section [{name}] (from {source}); {hint}")
            yield keys[key], inner, f"{source}, [{name}] {key}"
