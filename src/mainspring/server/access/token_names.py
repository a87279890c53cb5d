"""Viewers learn that something was done through an API token, and not through which one.

Names of principals stand in many places: who paused a job, the reason of a cancelled execution, audit records, pages of
the dashboard. Therefore answers to viewers are searched as a whole, just before they are sent; a name is the text of
`Principal.actor`, also as part of an address.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from starlette.types import Scope

from ...model.values.access import Role
from .principals import Principal

SHOWN = "an API token"

_PRINCIPAL = "mainspring.principal"
_ACTOR = re.compile(rb"token(?::|%3A)[A-Za-z0-9_. -]{1,100}(?:/|%2F)[0-9a-f]{16}")  # pages show some _ as spaces


def note_principal(scope: Scope, principal: Principal) -> None:
    """Remember who sent this request until its answer is sent."""
    scope[_PRINCIPAL] = principal


def hides_names(scope: Scope) -> bool:
    principal: Principal | None = scope.get(_PRINCIPAL)
    return principal is not None and not principal.role.covers(Role.OPERATOR)


def without_token_names(scope: Scope, body: bytes) -> bytes:
    """The body of an answer as its viewer may read it. Viewers know their own token."""
    own = scope[_PRINCIPAL].actor
    kept = {own.encode(), quote(own, safe="").encode()}

    def shown(found: re.Match[bytes]) -> bytes:
        text = SHOWN if b":" in found[0] else quote(SHOWN)
        return found[0] if found[0] in kept else text.encode()

    return _ACTOR.sub(shown, body)
