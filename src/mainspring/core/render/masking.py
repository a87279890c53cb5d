"""What answers and pages show of secrets: parameters without them, and addresses without their secret part.

Secrets among parameters are masked for everybody (`shown_params`). Addresses of dead-man's switches are masked for
readers who may not change the job. Anyone who knows such an address can keep the switch from going off, so readers see
only its host.

>>> masked({"ping": {"success": "https://hc.example/abc"}, "queue": "default"})
{'ping': {'success': 'https://hc.example/...'}, 'queue': 'default'}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from ..rules.secret_params import mask

FIELD = "ping"
_HOLDERS = ("overrides",)
"""Fields of an audit record that hold fields of a job themselves."""


def shown_params(source: Any) -> dict[str, Any] | None:
    """The parameters of a job, an execution, a backfill or a bulk action, as everybody may see them."""
    params = source.params
    return params if params is None else mask(params, source.secret)


def masked(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a job, a template or an audit record, without the secret part of addresses. Parameters and metadata
    may have a field of the same name, which is nobody's secret: those are not looked into."""
    shown = {name: _address(value) if name == FIELD else value for name, value in fields.items()}
    return shown | {name: masked(fields[name]) for name in _HOLDERS if isinstance(fields.get(name), Mapping)}


def masked_record(target: str, value: Any) -> Any:
    """What an audit record says was there before or after, for readers who are not admins: without the names of API
    tokens either.

    >>> masked_record("token:52f1a7c09d3be648", {"name": "ci", "role": "operator"})
    {'role': 'operator'}
    """
    if not isinstance(value, dict):
        return value
    of_token = target.startswith("token:")
    return masked({name: each for name, each in value.items() if not (of_token and name == "name")})


def _address(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {when: _address(url) for when, url in value.items()}
    return _host_of(value) if isinstance(value, str) else value


def _host_of(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return "..."
    return f"{parts.scheme}://{parts.hostname}{port}/..."
