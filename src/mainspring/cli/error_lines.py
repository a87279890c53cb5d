"""How an error becomes one line, in the words of the command line, and an exit code."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from ..model.errors import (
    ConfigurationError,
    DuplicateRegistration,
    InvalidDeclaration,
    InvalidValue,
    NotFound,
    StoreError,
    nearest,
)
from ..model.values.reading import DURATION_ALLOWED, INSTANT_ALLOWED
from ..model.values.terminal_text import on_terminal
from .terminal import echo

REFUSED, BAD_INPUT, INTERRUPTED = 1, 2, 130
INPUT_ERRORS = (InvalidValue, NotFound, ConfigurationError, DuplicateRegistration, StoreError)

LISTS = {
    "job": "jobs list",
    "execution": "executions list",
    "backfill": "backfill list",
    "bulk action": "bulk list",
    "handler": "handlers list",
    "calendar": "calendars list",
    "template": "templates list",
    "webhook": "webhooks list",
    "hook": "hooks list",
    "lock": "locks list",
    "error group": "errors list",
    "token": "token list",
}
"""The command that lists what was not found, by its noun."""

IN_CODE = {
    DURATION_ALLOWED: 'seconds, or text such as "250ms", "10m", "1h30m", "2d", "1w"',
    INSTANT_ALLOWED: "a time with its offset, such as 2026-03-01T08:00Z",
}
"""What is said of values in code, and of the same values where only text can be given."""

_EXTRA = re.compile(r"Got unexpected extra arguments? \((?P<words>.*)\)", re.DOTALL)
_NOT_ONE_OF = re.compile(r"'(?P<value>.*)' is not one of .*", re.DOTALL)
_NOT_IN_RANGE = re.compile(r"(?P<value>.+?) is not (a valid integer range|in the range .+)")


class Typed(NamedTuple):
    """What was typed: the root command under its name, and the arguments."""

    root: click.Command
    program: str
    arguments: Sequence[str]

    @property
    def command(self) -> click.Command:
        """The command that the arguments name, as far as they name one."""
        command = self.root
        for word in self.arguments:
            if not isinstance(command, click.Group) or word.startswith("-"):
                break
            if (found := command.get_command(click.Context(command), word)) is None:
                break
            command = found
        return command


def report(error: Exception, typed: Typed) -> int:
    """Print the line, and return the exit code."""
    echo(f"error: {one_line(error, typed)}", err=True)
    if isinstance(error, click.ClickException):
        return error.exit_code
    return BAD_INPUT if isinstance(error, INPUT_ERRORS) else REFUSED


def one_line(error: Exception, typed: Typed) -> str:
    match error:
        case click.ClickException():
            text = _usage_text(error, typed.arguments)
        case NotFound():
            text = _with_list(error, typed.program)
        case InvalidValue() if not isinstance(error, InvalidDeclaration):
            text = _with_option(error, typed.command)
        case OSError() | TimeoutError():
            text = f"{type(error).__name__}: {error}"
        case _:
            text = str(error)
    return on_terminal(" ".join(text.split()), keep="")


# --- errors of ours -------------------------------------------------------------------------------------------


def _with_list(error: NotFound, program: str) -> str:
    """Where nothing is suggested, the command that lists what there is."""
    command = LISTS.get(error.noun)
    return str(error) if error.suggestion or command is None else f"{error}; `{program} {command}` lists what exists"


def _with_option(error: InvalidValue, command: click.Command) -> str:
    """A field that an option of the command gave is named as that option."""
    text = str(error)
    for words, typed in IN_CODE.items():
        text = text.replace(words, typed)
    field = re.match(r"(\w+)( \(from argument \w+\))?: ", text)
    options = {each.name: each for each in command.params if isinstance(each, click.Option) and each.name != "params"}
    if field is None or field[1] not in options:
        return text
    return f"{_typed_name(options[field[1]])}: {text[field.end() :]}"


# --- errors of click ------------------------------------------------------------------------------------------


def _usage_text(error: click.ClickException, arguments: Sequence[str]) -> str:
    match error:
        case click.NoSuchOption():
            text = _unknown_option(error)
        case click.BadOptionUsage() if "requires an argument" in error.message:
            text = f"option {error.option_name} needs a value; write {error.option_name} VALUE"
        case click.BadParameter() if error.param is not None and isinstance(error.param.type, click.IntRange):
            text = _not_in_range(error, error.param, error.param.type)
        case click.BadParameter() if error.param is not None and isinstance(error.param.type, click.Choice):
            text = _not_one_of(error, error.param.type)
        case click.UsageError() if extra := _EXTRA.fullmatch(error.message.rstrip(".")):
            remedy = _joined_pair(extra["words"], arguments) or "remove it, or put quotes around a value with spaces"
            text = f"unexpected argument {extra['words']}; {remedy}"
        case _:
            text = error.format_message()
    if not isinstance(error, click.UsageError) or error.ctx is None:
        return text
    return f"{text.rstrip('.')} (see {error.ctx.command_path} --help)"


def _unknown_option(error: click.NoSuchOption) -> str:
    """The nearest option, or all of them. A field of a job is given with `--option`, where a command has that."""
    from .parameters import FIELDS

    command = error.ctx.command if error.ctx is not None else None
    known = {name for each in command.params for name in each.opts if name.startswith("--")} if command else set()
    field = error.option_name.lstrip("-").replace("-", "_")
    if "--option" in known and field in FIELDS:
        return f"there is no option {error.option_name}; write --option {field}=VALUE"
    near = nearest(error.option_name[2:], [name[2:] for name in known], likeness=0.7)
    hint = f"did you mean --{near}?" if near else f"known are {', '.join(sorted(known)) or 'none'}"
    return f"there is no option {error.option_name}; {hint}"


def _joined_pair(extra: str, arguments: Sequence[str]) -> str:
    """How to write a pair whose parts were typed as two arguments: `--param customer ada`. Empty for other options."""
    for option, key, value in zip(arguments, arguments[1:], arguments[2:], strict=False):
        if option in ("--param", "--option") and "=" not in key and extra.startswith(value):
            return f"{option} takes KEY=VALUE: write {option} {shlex.quote(f'{key}={value}')}"
    return ""


def _not_one_of(error: click.BadParameter, kind: click.Choice[Any]) -> str:
    """The allowed words, and the one that is nearest to what was typed."""
    found = _NOT_ONE_OF.fullmatch(error.message.rstrip("."))
    near = nearest(found["value"], map(str, kind.choices)) if found else None
    return f"{error.format_message().rstrip('.')}; did you mean {near!r}?" if near else error.format_message()


def _not_in_range(error: click.BadParameter, option: click.Parameter, kind: click.IntRange) -> str:
    found = _NOT_IN_RANGE.fullmatch(error.message.rstrip("."))
    if found is None:
        return error.format_message()
    low, high = kind.min, kind.max
    allowed = f"a whole number from {low} to {high}" if high is not None else f"a whole number from {low} up"
    return f"{_typed_name(option)}: {found['value']} is not valid; allowed: {allowed}"


def _typed_name(option: click.Parameter) -> str:
    """An option by its long name, an argument as the help shows it."""
    if isinstance(option, click.Option):
        return max(option.opts, key=len)
    return option.human_readable_name
