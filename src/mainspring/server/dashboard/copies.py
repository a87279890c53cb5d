"""Commands that do the same as a page: to paste into a shell or into code. They hold no credentials."""

from __future__ import annotations

import json
import pprint
import shlex
from typing import Any
from urllib.parse import quote

import msgspec

from ...core.render.masking import shown_params
from ...core.views.execution import Execution

LONGEST = 4_000
"""Characters of parameters that are worth pasting."""


class Copy(msgspec.Struct, frozen=True):
    tool: str
    text: str


def copies(execution: Execution, address: str) -> list[Copy]:
    """Running the job once more with the same parameters, window and tenant. `address` is where the API is."""
    params, window, tenant = shown_params(execution), execution.window, execution.tenant
    if len(json.dumps(params)) > LONGEST or params != execution.params:
        return _retries(execution.id, address)
    shell = ["mainspring", "jobs", "trigger", execution.job]
    body: dict[str, Any] = {"params": params}
    arguments = [repr(execution.job), pprint.pformat(params, sort_dicts=False, width=100)]
    if params:
        shell += ["--params", json.dumps(params, ensure_ascii=False)]
    if window is not None:
        begin, end = window.begin.isoformat(), window.end.isoformat()
        shell += ["--window", begin, end]
        body["window"] = {"begin": begin, "end": end}
        arguments.append(f"window=({begin!r}, {end!r})")
    if tenant is not None:
        shell += ["--tenant", tenant]
        body["tenant"] = tenant
        arguments.append(f"tenant={tenant!r}")
    return [
        Copy("Command line", shlex.join(shell)),
        Copy("curl", _curl(f"{address}/api/v1/jobs/{quote(execution.job, safe='')}/trigger", body)),
        Copy("Python", f"await app.trigger({', '.join(arguments)})"),
    ]


def _retries(id: str, address: str) -> list[Copy]:
    """The same by its id, for parameters that are too long to paste or contain secrets."""
    return [
        Copy("Command line", f"mainspring executions retry {id}"),
        Copy("curl", _curl(f"{address}/api/v1/executions/{id}/retry", {})),
        Copy("Python", f"await app.retry({id!r})"),
    ]


def _curl(url: str, body: dict[str, Any]) -> str:
    """The token comes from the environment of the shell."""
    lines = [
        f"curl -X POST {shlex.quote(url)}",
        '-H "Authorization: Bearer $MAINSPRING_TOKEN"',
        "-H 'Content-Type: application/json'",
        f"-d {shlex.quote(json.dumps(body, ensure_ascii=False))}",
    ]
    return " \\\n  ".join(lines)
