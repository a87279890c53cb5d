"""The three roles of people and programs that use the HTTP interface; each may do what those below it may."""

from __future__ import annotations

from enum import StrEnum

from ..errors import InvalidValue, one_of


class Role(StrEnum):
    """A viewer reads, an operator steers jobs and executions, an admin also manages locks and tokens.

    >>> Role.ADMIN.covers(Role.OPERATOR), Role.VIEWER.covers(Role.OPERATOR)
    (True, False)
    """

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    @property
    def rank(self) -> int:
        return list(Role).index(self)

    def covers(self, needed: Role) -> bool:
        """Whether who has this role may do what `needed` is needed for."""
        return self.rank >= needed.rank


def role(field: str, value: object) -> Role:
    """A role by its name."""
    if isinstance(value, str) and value in list(Role):
        return Role(value)
    raise InvalidValue(field, value, one_of(repr(item.value) for item in Role))
