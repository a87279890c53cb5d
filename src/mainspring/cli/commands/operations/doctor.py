"""`mainspring doctor`: what is wrong with this installation, and what to do about it."""

from __future__ import annotations

import asyncio
import textwrap

import click
import msgspec
from rich.text import Text

from ....admin.doctor import Installation, examine_installation
from ....config.load import load
from ....core.doctor.examination import AREAS, Report
from ....core.doctor.facts import ConfigurationFacts, DeclarationFacts
from ....model.errors import ConfigurationError, InvalidValue, MainspringError
from ....model.values.database_url import without_password
from ...completion import applications
from ...load import FIELD, load_app
from ...root import REFUSED, example, output_option
from ...screens.output import console, print_json
from ...session import silence_logger
from ...terminal import echo

STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan", "ok": "green", "skipped": "magenta"}
MARGIN, AREA = 9, 11
NAME_IT = "name the database with --database-url"
LONGEST_SCRIPT = 20
"""Lines of a repair that are shown below the findings; a longer one is printed by --sql."""


@example("doctor shop.jobs:app", "doctor --database-url postgresql://db/app --sql")
@click.command()
@click.argument("target", metavar="[MODULE:APP]", required=False, shell_complete=applications)
@click.option("--app", metavar="MODULE:APP", envvar="MAINSPRING_APP", help="The same, as an option.")
@click.option(
    "--database-url", metavar="URL", help="The database  [default: that of the application or of the settings]"
)
@click.option("--sql", is_flag=True, help="Print only the statements that repair the schema.")
@output_option
def doctor(target: str | None, app: str | None, database_url: str | None, sql: bool, output: str) -> None:
    """Find misconfigurations: of the database and its schema, of settings, processes, access and jobs, each with its
    remedy. It changes nothing. Exit code 1: at least one error; warnings alone give 0."""
    silence_logger()
    target = target or app
    installation = _installation(target, database_url)
    report = asyncio.run(examine_installation(installation))
    if sql:
        _print_sql(report)
        return
    if output == "json":
        print_json(_json(report, installation))
    else:
        echo(f"Examined {' on '.join(filter(None, (target, _name(installation))))}\n")
        _print(report)
    if not report.healthy:
        raise click.exceptions.Exit(REFUSED)


# --- what is examined -------------------------------------------------------------------------------------------------


def _installation(target: str | None, url: str | None) -> Installation:
    """Settings or declarations that are refused are findings; the rest is examined without them."""
    if target is None:
        return _without_application(Installation(), url, "the settings are not valid")
    app, found = None, Installation(declarations=DeclarationFacts())
    try:
        app = load_app(target)
        app._runtime.declares  # noqa: B018  # reads the declarations, and refuses bad ones
    except MainspringError as error:
        found = _refused(error)
    if app is None:
        return _without_application(found, url, "the application cannot be loaded")
    own_store = app._runtime.given_store is not None and url is None
    settings = app._runtime.settings
    return msgspec.structs.replace(
        found,
        app=app,
        settings=settings,
        url=None if own_store else url or settings.process.database_url,
        no_database=f"the application has a store of its own; {NAME_IT}" if own_store else "",
    )


def _refused(error: MainspringError) -> Installation:
    if not isinstance(error, InvalidValue):
        refused = ConfigurationFacts(str(error)) if isinstance(error, ConfigurationError) else ConfigurationFacts()
        reason = "" if refused.error else str(error)
        return Installation(configuration=refused, declarations=DeclarationFacts(error=reason))
    if error.field == FIELD:
        raise error  # the name is wrong, not the application
    isolation = error.field in ("isolation", "import_path")
    return Installation(declarations=DeclarationFacts(**{"isolation_error" if isolation else "error": str(error)}))


def _without_application(found: Installation, url: str | None, reason: str) -> Installation:
    """The database is then the one that was given, or that of the environment or the configuration file."""
    try:
        settings = load({"database_url": url})
    except MainspringError as error:
        configuration = found.configuration if found.configuration.error else ConfigurationFacts(str(error))
        no_database = "" if url else f"{reason}; {NAME_IT}"
        return msgspec.structs.replace(found, configuration=configuration, url=url, no_database=no_database)
    if found.declarations is not None and "database_url" not in settings.sources:
        return msgspec.structs.replace(found, settings=settings, no_database=f"{reason}; {NAME_IT}")
    return msgspec.structs.replace(found, settings=settings, url=settings.process.database_url)


def _name(installation: Installation) -> str:
    return "an unknown database" if installation.url is None else without_password(installation.url)


# --- output -----------------------------------------------------------------------------------------------------------


def _json(report: Report, installation: Installation) -> dict[str, object]:
    return {
        "database": _name(installation),
        "healthy": report.healthy,
        "errors": report.count("error"),
        "warnings": report.count("warning"),
        "notes": report.count("note"),
        "checked": report.checked,
        "findings": msgspec.to_builtins(report.findings),
        "fine": list(report.fine),
        "skipped": msgspec.to_builtins(report.skipped),
        "repair": report.script or None,
    }


def _print_sql(report: Report) -> None:
    """Nothing, if there is nothing to repair. A schema that could not be compared is an error."""
    reason = next((each.reason for each in report.skipped if "schema_damaged" in each.checks), None)
    if reason is not None:
        raise click.ClickException(f"the schema cannot be compared: {reason}; run `mainspring doctor` without --sql")
    echo(report.script, nl=False)


def _print(report: Report) -> None:
    for each in report.findings:
        _line(each.severity, each.area, each.words)
        _line("", "", f"→ {each.remedy}", "  ")
    if report.findings:
        echo()
    for area in report.fine:
        _line("ok", area, AREAS[area])
    for skipped in report.skipped:
        many = f"{len(skipped.checks)} checks" if len(skipped.checks) > 3 else ", ".join(skipped.checks)
        _line("skipped", "", f"{many}: {skipped.reason}")
    echo(f"\n{_summary(report)}")
    _print_script(report.script)


def _summary(report: Report) -> str:
    counts = ((report.count(kind), kind) for kind in ("error", "warning", "note"))
    words = [f"{count} {kind}{'s' * (count > 1)}" for count, kind in counts if count]
    skipped = sum(len(each.checks) for each in report.skipped)
    could_not = f", {skipped} could not" if skipped else ""
    return f"{', '.join(words) or 'No problem found'}; {report.checked} checks ran{could_not}."


def _print_script(script: str) -> None:
    lines = script.splitlines()
    if len(lines) > LONGEST_SCRIPT:
        echo(f"The repair of the schema has {len(lines)} lines: mainspring doctor --sql > repair.sql")
    elif lines:
        echo("The statements that repair the schema (they were not run):\n")
        echo(textwrap.indent(script, "    "), nl=False)


def _line(severity: str, area: str, words: str, hang: str = "") -> None:
    """One finding in two columns and as many lines as it needs; `hang` begins all lines but the first."""
    screen = console()
    indent = MARGIN + AREA
    width = max(screen.width - indent, 30)
    lines = textwrap.wrap(words, width, subsequent_indent=hang, break_on_hyphens=False) or [""]
    parts = (severity.ljust(MARGIN), STYLES.get(severity, "")), (area.ljust(AREA), "bold"), lines[0]
    screen.print(Text.assemble(*parts), soft_wrap=True)
    for line in lines[1:]:
        screen.print(Text(" " * indent + line), soft_wrap=True)
