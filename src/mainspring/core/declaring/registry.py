"""The registry: handlers by name, class and function, and the jobs that code declares for them.

Each application has one, in memory, without global state or a clock. At start-up the application writes the declared
jobs to the store.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import warnings
from collections.abc import Callable, Iterable
from typing import Any, Unpack, cast

from ...model.calendars.calendar import Calendar
from ...model.errors import ConfigurationError, DuplicateRegistration, HandlerNotFound, InvalidValue, MainspringError
from ...model.job import JobSpec, encode_spec
from ...model.policies import Isolation
from ...model.triggers import Trigger
from ...model.values.payload import Verbatim, presentable
from ...model.values.reading import SYSTEM_PREFIX, own_name
from .around import Around
from .declarations import Declaration, Lookup
from .dependency_options import refuse_cycle
from .handler import Handler, documentation, make_handler, method_of
from .handler_types import AnyHandler, NamedHandler, TenantContext, TenantProvider
from .job_specs import NO_DEFAULTS, JobDefaults
from .options import JobOptions, known_options, with_inherited
from .places import absent, calling_line, calling_module, calling_place, declaring, failure, located, place_of
from .tenant_options import check_tenant_context

__all__ = ["Handler", "JobOptions", "Registry"]


class Registry:
    """Handlers and declared jobs.

    >>> registry = Registry()
    >>> def crawl(ctx, url: str): ...
    >>> registry.declare("crawl", crawl, queue="web").name
    'crawl'
    >>> registry.resolve(crawl) is registry.get("crawl")
    True
    """

    def __init__(
        self,
        tenant_context: TenantContext | None = None,
        default_isolation: Isolation = "thread",
        check_importable: Callable[[bool], None] = lambda final: None,
    ) -> None:
        """`check_importable` refuses jobs in processes of their own if no process could import the application; it is
        `final` when all declarations have been made."""
        if tenant_context is not None:
            check_tenant_context("tenant_context", tenant_context)
        self._handlers: dict[str, Handler] = {}
        self._jobs: dict[str, Declaration] = {}
        self._by_object: dict[Any, list[Handler]] = {}
        self._by_class: dict[type, list[Handler]] = {}
        self._references: list[Any] = []
        self._names: frozenset[str] | None = None  # None: to be made when it is asked for
        self.calendars: dict[str, Calendar] = {}
        self.tenant_context = tenant_context
        self.around = Around()
        self._default_isolation, self._check_importable = default_isolation, check_importable
        self.modules: dict[str, str] = {}
        """The modules that declared handlers, each with the first handler that it declared."""
        self.revision = 0
        """Grows with every declaration, so that the application notices jobs that are not in the store yet."""

    # --- finding ------------------------------------------------------------------------------------------
    @property
    def names(self) -> frozenset[str]:
        """The names of all handlers."""
        if self._names is None:
            self._names = frozenset(self._handlers)
        return self._names

    @property
    def handlers(self) -> tuple[Handler, ...]:
        """All handlers, in the order of their registration."""
        return tuple(self._handlers.values())

    def code_of(self, spec: JobSpec) -> str:
        """What stands behind a job: where the code of its handler is, and a hash of what it declares."""
        handler = self._handlers.get(spec.handler)
        place = spec.handler if handler is None else handler.place
        return f"{place}#{hashlib.sha256(encode_spec(spec).encode()).hexdigest()[:8]}"

    def get(self, name: str) -> Handler:
        """The handler of this name; `HandlerNotFound` if there is none."""
        try:
            return self._handlers[name]
        except KeyError:
            raise HandlerNotFound(name, self._handlers) from None

    def resolve(self, ref: Any) -> Handler:
        """The handler meant by a name, a function, a class or an object."""
        if isinstance(ref, str):
            return self.get(ref)
        if isinstance(ref, Handler):
            return self.get(ref.name)
        found = self.find(ref)
        if found is None:
            raise HandlerNotFound(_label(ref), self._handlers)
        return found

    def find(self, ref: Any) -> Handler | None:
        """Like `resolve`, but not for names, and None for what is not registered."""
        kind = ref if isinstance(ref, type) else type(ref)
        found = self._by_object.get(_key(ref)) or self._by_class.get(kind)
        if not found:
            inner = getattr(ref, "__wrapped__", None)
            return self.find(inner) if inner is not None else None
        if len(found) > 1:
            names = ", ".join(sorted(handler.name for handler in found))
            remedy = "It is registered under several names: use one of them"
            raise InvalidValue("handler", Verbatim(_label(ref)), names, remedy)
        return found[0]

    def declared_jobs(
        self, lookup: Lookup | None = None, tz: str = "UTC", defaults: JobDefaults = NO_DEFAULTS
    ) -> list[tuple[str, JobSpec]]:
        """All jobs of the code, with placeholders filled in; `tz` is the zone of those that name none."""
        jobs = self._jobs.values()
        found = [(job.name, job.spec(self.get(job.handler).signature, lookup, tz, defaults)) for job in jobs]
        if any(spec.isolation == "process" for _, spec in found):
            self._check_importable(True)
        return found

    def has_window(self, job: str, defaults: JobDefaults = NO_DEFAULTS) -> bool:
        """Whether the code of this process declares this job with a window, or the settings give it one."""
        return job in self._jobs and defaults.under(self._jobs[job].options).get("window") is not None

    def declares(self, job: str) -> bool:
        """Whether the code of this process declares this job."""
        return job in self._jobs

    def provider(self, job: str) -> TenantProvider | None:
        """The list of tenants of this job, or the function that returns it, if the code of this process declares it."""
        return self._jobs[job].options.get("tenants") if job in self._jobs else None

    def context_of(self, job: str, handler: str) -> Callable[..., Any] | None:
        """The context manager around the handler for a tenant: of the job, its handler or the application. Mainspring's
        own handlers have none: their tenants are not the application's."""
        if handler.startswith(SYSTEM_PREFIX):
            return None
        for name in (job, handler):
            own = self._jobs[name].options.get("tenant_context") if name in self._jobs else None
            if own is not None:
                return own  # type: ignore[no-any-return]
        return self.tenant_context

    # --- declaring ----------------------------------------------------------------------------------------
    def declare(self, name: str, function: Any, **options: Unpack[JobOptions]) -> Handler:
        """Register a function, or an object with `perform` or `execute`, and declare a job of the same name."""
        with declaring(f"job {name!r}"):
            given = known_options(options)
            return self._declare(name, function, given, _flag(given))

    def register(self, handler: NamedHandler, **options: Unpack[JobOptions]) -> Handler:
        """Register a class or an object with `name` and `perform(data, execution)` or `execute(ctx)`, with its job.

        A class is constructed once, here. A second object of the same class changes nothing: the first serves all
        executions.
        """
        name = getattr(handler, "name", None)
        with declaring(f"job {name!r}" if isinstance(name, str) else ""):
            if method_of(handler) is None:
                allowed = "a class or an object with perform or execute"
                missing = "A class needs a method perform(data, execution) or execute(ctx)"
                remedy = missing if isinstance(handler, type) else "Declare a function with @app.job(...)"
                field = f"handler {name!r}" if isinstance(name, str) else "handler"
                raise InvalidValue(field, presentable(handler), allowed, remedy)
            if not isinstance(name, str):
                remedy = f"Give it one: name = '...' in class {_label(handler)}"
                raise InvalidValue(f"name of {_label(handler)}", presentable(name), "a name as text", remedy)
            known = self._handlers.get(name)
            if known is not None and not options.get("allow_override") and _is_second_object(known, handler):
                _warn_of_second(known)
                return known
            attempts = getattr(handler, "max_attempts", None)
            given = {"max_attempts": attempts, **known_options(options)}
            return self._declare(name, handler, given, _flag(given))

    def schedule(
        self, name: str, handler: AnyHandler, trigger: Trigger | None = None, /, **options: Unpack[JobOptions]
    ) -> Handler:
        """Declare one more job of a handler, with its own trigger, parameters and queue.

        A handler that is not registered yet is registered: under its own `name` if it has one, otherwise under `name`.
        """
        with declaring(f"job {name!r}"):
            return self._schedule(name, handler, trigger, known_options(options))

    def import_modules(self, modules: Iterable[str]) -> None:
        """Import modules that hold declarations; `ConfigurationError` names one that fails."""
        for module in module_names(modules):
            try:
                importlib.import_module(module)
            except MainspringError as error:
                raise located(error, where=place_of(error)) from error
            except (Exception, SystemExit) as error:
                why = absent(error, module) or failure(error)
                raise ConfigurationError(f"jobs: module {module!r} could not be imported: {why}") from error

    # --- inside -------------------------------------------------------------------------------------------
    def _declare(self, name: str, function: Any, options: dict[str, Any], override: bool) -> Handler:
        where = calling_place()
        self._refuse_duplicate(own_name("name", name), where, override)
        handler = make_handler(name, function, where, options, self._default_isolation, self.around)
        self._add(handler, self._declaration(name, handler, options, where))
        self.modules.setdefault(calling_module(), name)
        return handler

    def _schedule(self, name: str, handler: AnyHandler, trigger: Trigger | None, given: dict[str, Any]) -> Handler:
        override = _flag(given)
        if trigger is not None:
            given["trigger"] = trigger if given.get("trigger") is None else _two_triggers(trigger)
        self._refuse_duplicate(own_name("name", name), calling_place(), override)
        known = self.resolve(handler) if isinstance(handler, (str, Handler)) else self.find(handler)
        if known is None and not _has_own_name(handler):
            return self._declare(name, handler, given, override)
        known = known or self.register(cast(NamedHandler, handler))
        if _is_second_object(known, handler):
            _warn_of_second(known)
        self._jobs[name] = self._declaration(name, known, _inherited(known, given), calling_place())
        self.revision += 1
        return known

    def _declaration(self, name: str, handler: Handler, options: dict[str, Any], where: str) -> Declaration:
        declaration = Declaration(name, handler.name, options, where, documentation(handler))
        if declaration.check(handler.signature, self._default_isolation).isolation == "process":
            self._check_importable(False)
        if options.get("after") is not None:

            def parents_of(job: str) -> tuple[str, ...] | None:
                known = declaration if job == name else self._jobs.get(job)
                return None if known is None else known.parents

            refuse_cycle(parents_of, name)
        return declaration

    def _refuse_duplicate(self, name: str, where: str, override: bool) -> None:
        known = self._jobs.get(name) or self._handlers.get(name)
        if known is None or override:
            return
        again = f"{where} (that code ran twice)" if known.where == where else where
        raise DuplicateRegistration(name, known.where, again)

    def _add(self, handler: Handler, declaration: Declaration) -> None:
        self._forget(handler.name)
        self._handlers[handler.name] = handler
        self._jobs[handler.name] = declaration
        self.revision += 1
        keys = {_key(handler.given)}
        if handler.instance is not None:
            keys.add(_key(handler.instance))
            self._by_class.setdefault(type(handler.instance), []).append(handler)
        for key in keys:
            self._by_object.setdefault(key, []).append(handler)
        self._names = None

    def add_reference(self, ref: Any, handler: Handler) -> None:
        """Let `ref` stand for the handler, such as the object that `@app.job` returns for its function."""
        self._references.append(ref)  # keeps its id from being reused
        self._by_object[_key(ref)] = [handler]

    def _forget(self, name: str) -> None:
        """Drop an overridden handler. Its further jobs stay, and use the new handler of that name."""
        old = self._handlers.pop(name, None)
        if old is None:
            return
        for found in (*self._by_object.values(), *self._by_class.values()):
            if old in found:
                found.remove(old)


def module_names(modules: Any) -> tuple[str, ...]:
    """The names of modules to import, checked."""
    if isinstance(modules, str):
        raise InvalidValue("jobs", modules, "a list of module names", f"Write jobs=[{modules!r}]")
    names = tuple(modules) if isinstance(modules, Iterable) else (modules,)
    for name in names:
        if not isinstance(name, str) or not name:
            raise InvalidValue("jobs", presentable(name), "names of modules, such as 'shop.jobs'")
    return names


def _key(ref: Any) -> Any:
    """The identity of an object; of a bound method, that of its parts, because each access makes a new object."""
    if inspect.ismethod(ref):
        return id(ref.__self__), ref.__func__
    return id(ref)


def _label(ref: Any) -> str:
    kind = ref if isinstance(ref, type) else type(ref)
    return str(getattr(ref, "__name__", kind.__name__))


def _has_own_name(handler: Any) -> bool:
    return method_of(handler) is not None and isinstance(getattr(handler, "name", None), str)


def _is_second_object(known: Handler, given: Any) -> bool:
    return known.instance is not None and type(given) is type(known.instance) and given is not known.instance


def _warn_of_second(known: Handler) -> None:
    message = (
        f"handler {known.name!r} keeps its first {_label(known.instance)} object ({known.where}); a second was given"
    )
    warnings.warn_explicit(message, UserWarning, *calling_line())


def _inherited(handler: Handler, given: dict[str, Any]) -> dict[str, Any]:
    return with_inherited(handler.defaults, given)


def _flag(given: dict[str, Any]) -> bool:
    override = given.pop("allow_override", False)
    if not isinstance(override, bool):
        raise InvalidValue("allow_override", presentable(override), "True or False")
    return override


def _two_triggers(trigger: Trigger) -> Any:
    raise InvalidValue("trigger", presentable(trigger), "one trigger", "Combine several with any_of(...)")
