"""Tenants of a job: a list of names, or a function that returns them when the job runs.

Both are code and stay in the registry. The stored job only knows that it has tenants, and the rules for them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ...model.errors import InvalidValue, nearest
from ...model.values.payload import Verbatim, presentable
from ...model.values.reading import words
from .handler_types import TenantProvider

MAX_TENANTS = 100_000


def check_tenants(field: str, provider: Any) -> bool:
    """Whether a job has tenants. True stands for those that the code names already; a job stores nothing else."""
    if not isinstance(provider, bool):
        check_provider(provider)
    return provider is not False


def check_provider(provider: Any) -> None:
    """Refuse at registration what would only fail when the job runs."""
    if callable(provider):
        if context_wanted(provider) is None:
            taken = "a function without parameters, or with the context as its only one"
            raise InvalidValue("tenants", Verbatim(_label(provider)), taken, "Give it one parameter at most")
    elif isinstance(provider, (list, tuple, set, frozenset)):
        tenant_names(provider)
    else:
        remedy = f"Write tenants=[{provider!r}]" if isinstance(provider, str) else ""
        raise InvalidValue("tenants", presentable(provider), "a list of names, or a function that returns one", remedy)


def check_tenant_context(field: str, factory: Any) -> None:
    """Refuse what cannot be called with one value: the name of the tenant, or the context."""
    if not callable(factory):
        raise InvalidValue(field, presentable(factory), "a function that gives a context manager")
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):
        return  # some builtins have no signature
    try:
        signature.bind("")
    except TypeError:
        taken = "a function that takes the name of the tenant, or ctx"
        raise InvalidValue(field, Verbatim(_label(factory)), taken, "Give it one parameter") from None


def tenant_names(given: Any, field: str = "tenants") -> list[str]:
    """The names of tenants in their order, checked: no name may occur twice."""
    if not isinstance(given, Iterable) or isinstance(given, (str, bytes, Mapping)):
        raise InvalidValue(field, presentable(given), "names of tenants, as a list")
    names: dict[str, None] = {}
    for name in given:
        if check_tenant(field, name) in names:
            raise InvalidValue(field, name, "every tenant once", "The tenant is named twice")
        names[name] = None
        if len(names) > MAX_TENANTS:
            raise InvalidValue(field, f"more than {MAX_TENANTS:,}", f"at most {MAX_TENANTS:,} tenants")
    return list(names)


def check_tenant(field: str, name: Any) -> str:
    """The name of one tenant: printable text of 1 to 200 characters, without blanks around it."""
    if not isinstance(name, str) or not name.isprintable() or name != name.strip():
        allowed = "printable text of 1 to 200 characters, without blanks around it"
        raise InvalidValue(field, presentable(name), allowed)
    return words(field, name)


def refuse_unknown_tenants(names: Sequence[str], provider: TenantProvider | None, field: str = "tenant") -> None:
    """Refuse names that are not in the job's list of tenants. A function that returns them is not called: it may be
    slow, and may need the context of a run."""
    if not isinstance(provider, (list, tuple, set, frozenset)):
        return
    for name in names:
        if name not in provider:
            guess = nearest(name, [each for each in provider if isinstance(each, str)])
            remedy = f"Did you mean {guess!r}?" if guess else ""
            raise InvalidValue(field, name, "a tenant that tenants= of the job lists", remedy)


def context_wanted(function: Callable[..., Any]) -> bool | None:
    """Whether a function takes one argument; None when it needs more than one, or keyword arguments."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    plain = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    needed = [each for each in plain if each.default is each.empty]
    named = [each for each in parameters if each.kind is each.KEYWORD_ONLY and each.default is each.empty]
    if len(needed) > 1 or named:
        return None
    return bool(needed)


def _label(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
