"""What a job may say of its tenants. Who they are is a list, or a function that says so when the job runs: both are
code, and stay in the registry. A job keeps only that it has tenants, and the rules by which they run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ...model.errors import InvalidValue, nearest
from ...model.limits import MAX_CONCURRENCY
from ...model.policies import FanOut, check_max_attempts, check_retry
from ...model.values.payload import Verbatim, presentable
from ...model.values.reading import whole, words

TenantProvider: TypeAlias = Sequence[str] | Callable[..., Any]
"""Names, or a plain or async function that returns them; it may take the context of the parent."""

CODE_ONLY = frozenset({"tenants", "tenant_context"})
"""Options that no operator can set: they are functions, or stand for them."""

MAX_TENANTS = 100_000
_DEFAULTS = FanOut()
_RULES: dict[str, Any] = {
    "continue_on_failure": True,
    "tenant_concurrency": None,
    "tenant_max_attempts": _DEFAULTS.max_attempts,
    "tenant_retry": _DEFAULTS.retry,
}


def tenant_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a specification that are about tenants. `True` stands for those that the code names already."""
    provider = given.get("tenants", False)
    context = given.get("tenant_context")
    if context is not None:
        check_tenant_context(context)
    if provider is False:
        _refuse_without_tenants(given)
        return {}
    if provider is not True:
        check_provider(provider)
    return {
        "tenants": True,
        "continue_on_failure": _switch(given.get("continue_on_failure", True)),
        "tenant_concurrency": _concurrency(given.get("tenant_concurrency")),
        "tenant_max_attempts": check_max_attempts("tenant_max_attempts", _first(given, "max_attempts")),
        "tenant_retry": check_retry("tenant_retry", _first(given, "retry")),
    }


def check_provider(provider: Any) -> None:
    """Refuse at registration what could only fail when the job runs."""
    if callable(provider):
        if context_wanted(provider) is None:
            taken = "a function that takes nothing, or the context"
            raise InvalidValue("tenants", Verbatim(_label(provider)), taken, "Give it one parameter at most")
    elif isinstance(provider, (list, tuple, set, frozenset)):
        tenant_names(provider)
    else:
        remedy = f"Write tenants=[{provider!r}]" if isinstance(provider, str) else ""
        raise InvalidValue("tenants", presentable(provider), "a list of names, or a function that returns one", remedy)


def check_tenant_context(factory: Any) -> None:
    """It is called with one value: the name of the tenant, or the context."""
    if not callable(factory):
        raise InvalidValue("tenant_context", presentable(factory), "a function that gives a context manager")
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):
        return  # some builtins do not say what they take
    try:
        signature.bind("")
    except TypeError:
        taken = "a function that takes the name of the tenant, or ctx"
        raise InvalidValue("tenant_context", Verbatim(_label(factory)), taken, "Give it one parameter") from None


def tenant_names(given: Any, field: str = "tenants") -> list[str]:
    """Names of tenants, each of them once; the order stays."""
    if not isinstance(given, Iterable) or isinstance(given, (str, bytes, Mapping)):
        raise InvalidValue(field, presentable(given), "names of tenants, as a list")
    names: dict[str, None] = {}
    for name in given:
        if check_tenant(field, name) in names:
            raise InvalidValue(field, name, "every tenant once", "It is named twice")
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


def refuse_unknown(names: Sequence[str], provider: TenantProvider | None, field: str = "tenant") -> None:
    """Of a job whose code lists its tenants. A function that says who they are is not asked: it may take its time, and
    may need the context of a run."""
    if not isinstance(provider, (list, tuple, set, frozenset)):
        return
    for name in names:
        if name not in provider:
            guess = nearest(name, [each for each in provider if isinstance(each, str)])
            remedy = f"Did you mean {guess!r}?" if guess else ""
            raise InvalidValue(field, name, "a tenant that tenants= of the job lists", remedy)


def context_wanted(function: Callable[..., Any]) -> bool | None:
    """Whether a function takes one argument; None when it takes more than that, or named ones that must be given."""
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


def _refuse_without_tenants(given: Mapping[str, Any]) -> None:
    for name, default in _RULES.items():
        if given.get(name, default) != default:
            raise InvalidValue(name, presentable(given[name]), "nothing without tenants=", "Say who they are: tenants=")


def _first(given: Mapping[str, Any], own: str) -> Any:
    """A tenant has the tries that are meant for it, else those of the job if it names any, else the default."""
    name = f"tenant_{own}"
    return given.get(name, given.get(own, _RULES[name]))


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidValue("continue_on_failure", presentable(value), "True or False")
    return value


def _concurrency(value: Any) -> int | None:
    return None if value is None else whole("tenant_concurrency", value, 1, MAX_CONCURRENCY)


def _label(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
