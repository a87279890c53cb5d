"""Who may do what over HTTP: addresses, credentials, roles. Routes declare, `Guard` decides."""

from ...model.values.access import Role
from .dependencies import (
    GuardedRoute,
    access_extra,
    anyone,
    guard_of,
    is_admitted,
    limited_to_sys,
    needs,
    required_role,
    signature,
    sys_access,
)
from .guard import Guard
from .loopback import UVICORN_OPTIONS, may_listen
from .principals import LOOPBACK, Principal, Refused, covers, may_steer

__all__ = [
    "LOOPBACK",
    "UVICORN_OPTIONS",
    "Guard",
    "GuardedRoute",
    "Principal",
    "Refused",
    "Role",
    "access_extra",
    "anyone",
    "covers",
    "guard_of",
    "is_admitted",
    "limited_to_sys",
    "may_listen",
    "may_steer",
    "needs",
    "required_role",
    "signature",
    "sys_access",
]
