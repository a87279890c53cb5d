"""Values about access: the roles of the HTTP interface, secrets, and networks."""

from __future__ import annotations

import hmac
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Literal, TypeAlias

from ..errors import InvalidValue, nearest, one_of

HIDDEN = "********"

Network: TypeAlias = IPv4Network | IPv6Network


class Role(StrEnum):
    """A viewer reads, an operator steers jobs and executions, an admin also manages locks and tokens. Each role
    includes those before it.

    >>> Role.ADMIN.covers(Role.OPERATOR), Role.VIEWER.covers(Role.OPERATOR)
    (True, False)
    """

    VIEWER = "viewer"
    """May read."""
    OPERATOR = "operator"
    """May also start, pause, cancel and retry."""
    ADMIN = "admin"
    """May also release locks and manage tokens, webhooks and hooks."""

    @property
    def rank(self) -> int:
        """Its place in the order of roles, from 0."""
        return list(Role).index(self)

    def covers(self, needed: Role) -> bool:
        """Whether this role includes the rights of `needed`."""
        return self.rank >= needed.rank


def highest_role(*names: str | None) -> str | None:
    """The highest of these roles, by name. One that only a newer release knows is higher than all others.

    >>> highest_role("operator", None, "admin"), highest_role(None)
    ('admin', None)
    """
    ranks = {role.value: role.rank for role in Role}
    return max((name for name in names if name is not None), key=lambda name: ranks.get(name, len(ranks)), default=None)


RoleName: TypeAlias = Role | Literal["viewer", "operator", "admin"]


def role(field: str, value: object) -> Role:
    """A role by its name."""
    if isinstance(value, str) and value in list(Role):
        return Role(value)
    guess = nearest(value, list(Role)) if isinstance(value, str) else None
    remedy = f"Did you mean {str(guess)!r}?" if guess else ""
    raise InvalidValue(field, value, one_of(repr(item.value) for item in Role), remedy)


class Secret:
    """A secret text, which never appears in a log, an error, a `repr` or a dump. Only `reveal` returns it.

    >>> print(Secret("hunter2"), [Secret("hunter2")])
    ******** [********]
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the text."""
        return self._value

    def __repr__(self) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> str:
        raise TypeError("a secret cannot be pickled")


def network(field: str, text: object) -> Network:
    """A network in CIDR form, or one address. An IPv4 network written as IPv6 becomes the IPv4 one.

    >>> network("sys_allow", "10.0.0.0/8"), network("sys_allow", "::ffff:10.0.0.0/104")
    (IPv4Network('10.0.0.0/8'), IPv4Network('10.0.0.0/8'))
    """
    allowed = "an address or network such as 10.0.0.0/8, 192.0.2.7 or 2001:db8::/32"
    if not isinstance(text, str):
        raise InvalidValue(field, text, allowed)
    try:
        found = ip_network(text.strip())
    except ValueError:
        raise InvalidValue(field, text, allowed, _remedy(text)) from None
    mapped = found.network_address.ipv4_mapped if isinstance(found, IPv6Network) else None
    if mapped is not None and found.prefixlen >= 96:
        return IPv4Network((mapped, found.prefixlen - 96))
    return found


def _remedy(text: str) -> str:
    try:
        return f"Did you mean {ip_network(text.strip(), strict=False)}?"
    except ValueError:
        return ""
