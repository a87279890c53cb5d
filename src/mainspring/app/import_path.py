"""How another process finds this application: `MODULE:APP`, from the name to the object and back.

The command line loads an application by name; so does a child process that runs handlers. `Origin` works out the name
of an application that was not loaded by one: it remembers the module whose top-level code made it, and looks there for
the name that it is bound to. A script that was started by its path is named by that path.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.machinery import PathFinder
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

from ..core.declaring.places import absent, failure, located, place_of
from ..model.errors import ConfigurationError, InvalidValue, MainspringError, nearest

if TYPE_CHECKING:
    from .mainspring import Mainspring

SCRIPT = "__mainspring_script__"
"""The name of the module that a script becomes in a child: what stands under `if __name__ == "__main__"` does not
run."""

_loading: ContextVar[str | None] = ContextVar("mainspring_loading", default=None)


# --- from the object to its name ------------------------------------------------------------------------------


class Origin:
    """Where an application was made. Made in its constructor."""

    def __init__(self, app: Mainspring) -> None:
        self._app = weakref.ref(app)
        self._module = _module_on_stack()
        self._loaded_as: str | None = None

    @property
    def import_path(self) -> str | None:
        """`MODULE:APP`; None if no name leads to the application (yet)."""
        return self._loaded_as or self._found()

    def loaded_as(self, target: str) -> None:
        """The application was found under this name."""
        self._loaded_as = target

    def may_get_a_name(self) -> bool:
        """Whether code that still runs may bind the application to a name: its module is being imported."""
        return _loading.get() is not None or (self._module is not None and _is_being_imported(self._module))

    def _found(self) -> str | None:
        app = self._app()
        if app is None or self._module is None:
            return None
        place = _place_of(self._module)
        name = next((name for name, value in list(vars(self._module).items()) if value is app), None)
        return f"{place}:{name}" if place and name else None


def application_name(import_path: str | None) -> str:
    """What an application is called that has no name of its own: by its module, or by the script that was started.

    >>> application_name("shop.jobs:app")
    'shop.jobs'
    """
    place = (import_path or "").rpartition(":")[0] or sys.argv[0]
    if not place.endswith(".py") and os.sep not in place:
        return place or "python"
    folder, name = os.path.split(os.path.splitext(place)[0])
    return os.path.basename(folder) if name == "__main__" else name


def check_importable(origin: Origin, given: str | None, *, final: bool) -> None:
    """Refuse handlers in processes of their own for an application that a child process could not import.

    `given` is the setting `import_path`. Nothing is imported here. Unless it is `final`, an application whose module is
    still being imported may get its name later.
    """
    if given is not None:
        _check_module(given)
    elif origin.import_path is None and (final or not origin.may_get_a_name()):
        allowed = "an application that a child process can import by name"
        remedy = (
            "Make it at the top level of a module, such as app = Mainspring(...) in shop/jobs.py, or name it: "
            'Mainspring(import_path="shop.jobs:app"), where a function that returns it will do too'
        )
        raise InvalidValue("isolation", "process", allowed, remedy)


def _check_module(target: str) -> None:
    """Refuse a module whose package is on no path. Only the search is done, no import."""
    package = target.partition(":")[0].partition(".")[0]
    if package not in sys.modules and PathFinder.find_spec(package, [*sys.path, os.getcwd()]) is None:
        remedy = f"There is no module {package!r} in {os.getcwd()!r} or on the Python path"
        raise InvalidValue("import_path", target, "a module that can be imported", remedy)


def _module_on_stack() -> ModuleType | None:
    """The module whose top-level code runs now, directly or through functions that it calls."""
    return next(_running_modules(), None)


def _is_being_imported(module: ModuleType) -> bool:
    """The main module does not count: what its functions hold while it runs gets no name in a child."""
    return module.__name__ != "__main__" and any(each is module for each in _running_modules())


def _running_modules() -> Iterator[ModuleType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "<module>":
            module = sys.modules.get(frame.f_globals.get("__name__", ""))
            if module is not None and vars(module) is frame.f_globals:
                yield module
        frame = frame.f_back


def _place_of(module: ModuleType) -> str | None:
    """The name of the module, or the path of a script; None for `python -c`, a shell or a notebook."""
    if module.__name__ != "__main__":
        return module.__name__
    spec = getattr(module, "__spec__", None)
    if spec is not None and spec.name != "__main__":
        return str(spec.name)
    file = getattr(module, "__file__", None)
    return os.path.abspath(file) if file is not None and os.path.isfile(file) else None


def places_of(modules: Mapping[str, str]) -> dict[str, str]:
    """Where a child finds the modules that declared handlers, each with one of these; those it can import."""
    found = {name: _place_of(module) for name in modules if (module := sys.modules.get(name)) is not None}
    return {place: modules[name] for name, place in found.items() if place is not None}


# --- from the name to the object ------------------------------------------------------------------------------


def load_application(target: str, field: str = "import_path") -> Mainspring:
    """The application under this name, imported with the working folder on the path, as `python -m` does. The name may
    also be that of a function without parameters that returns it. Whatever is wrong is one `InvalidValue`."""
    from .mainspring import Mainspring

    found = load_object(target, field)
    if not isinstance(found, Mainspring):
        module, _, path = target.rpartition(":")
        near = _application_in(sys.modules.get(module), path)
        remedy = f"{path!r} is of type {type(found).__name__}" + (f". Did you mean {near!r}?" if near else "")
        raise _refused(field, target, "the name of a Mainspring object", remedy)
    found._runtime.origin.loaded_as(target)
    return found


def load_object(target: str, field: str) -> Any:
    """What is under this name, or what a function of this name returns."""
    module_name, colon, path = target.rpartition(":")
    if not colon or not module_name or not path:
        raise _refused(field, target, "a module, a colon and a name", "Such as shop.jobs:app")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    with _while_loading(target):
        with _named_errors(field, target, module_name):
            found: Any = _module(module_name)
        for name in path.split("."):
            found = _attribute(field, target, found, name)
        if inspect.isfunction(found):
            _refuse_parameters(field, target, found)
            with _named_errors(field, target, path):
                found = found()
    return found


def load_in_child(target: str, modules: Mapping[str, str]) -> Mainspring:
    """The application, with the handlers of modules that it does not import itself: those that the worker's own main
    program has imported. `modules` comes from `places_of`."""
    app = load_application(target)
    app._runtime.import_modules()
    for place, handler in modules.items():
        if handler not in app._runtime.registry.names:
            with _while_loading(target), _named_errors("import_path", target, place):
                _module(place)
    return app


def refuse_while_loading() -> None:
    """An application that is loaded by name is run by the process that loads it, not by its own module."""
    target = _loading.get()
    if target is not None:
        raise ConfigurationError(
            f"{target} is being imported and must not run itself; "
            'put the call that runs it under: if __name__ == "__main__"'
        )


@contextmanager
def _while_loading(target: str) -> Iterator[None]:
    token = _loading.set(target)
    try:
        yield
    finally:
        _loading.reset(token)


def _module(name: str) -> ModuleType:
    if not name.endswith(".py"):
        return importlib.import_module(name)
    if SCRIPT in sys.modules:
        return sys.modules[SCRIPT]
    spec = importlib.util.spec_from_file_location(SCRIPT, name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(name=name)
    module = sys.modules[SCRIPT] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def _named_errors(field: str, target: str, name: str) -> Iterator[None]:
    try:
        yield
    except MainspringError as error:
        raise located(error, where=place_of(error)) from error
    except (Exception, SystemExit) as error:
        raise _broken(field, target, name, error) from error


def _attribute(field: str, target: str, owner: Any, name: str) -> Any:
    try:
        return getattr(owner, name)
    except AttributeError:
        near = _application_in(owner, name) or nearest(name, vars(owner))
        remedy = f"Did you mean {near!r}?" if near else "It holds no Mainspring object"
        raise _refused(field, target, f"a name in module {getattr(owner, '__name__', owner)!r}", remedy) from None


def _application_in(module: Any, name: str) -> str | None:
    """The name of the application in this module that is most like `name`."""
    from .mainspring import Mainspring

    apps = [key for key, value in vars(module).items() if isinstance(value, Mainspring)] if module else []
    return nearest(name, apps) or next(iter(apps), None)


def _refuse_parameters(field: str, target: str, function: Any) -> None:
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        remedy = f"{function.__name__} is called without arguments: {error}"
        raise _refused(field, target, "a function without parameters", remedy) from None


def _broken(field: str, target: str, name: str, error: BaseException) -> InvalidValue:
    remedy = absent(error, name) or f"{name!r} raised {failure(error)}"
    return _refused(field, target, "a module that can be imported", remedy)


def _refused(field: str, target: str, allowed: str, remedy: str) -> InvalidValue:
    return InvalidValue(field, target, allowed, remedy)
