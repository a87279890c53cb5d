"""`mainspring doctor`: what is wrong with this installation, and what to do about it."""

from __future__ import annotations

import asyncio
import logging
import textwrap

import click
import msgspec
from rich.text import Text

from ....admin.doctor import examine_installation
from ....app.mainspring import Mainspring
from ....config.load import load
from ....config.settings import Settings
from ....core.doctor.examination import AREAS, Report
from ....core.doctor.facts import ConfigurationFacts, DeclarationFacts
from ....model.errors import ConfigurationError, InvalidValue, MainspringError
from ....model.values.database_url import without_password
from ...completion import applications
from ...load import FIELD, load_app
from ...root import REFUSED, example
from ...screens.output import console, print_json

STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan", "ok": "green", "skipped": "magenta"}
MARGIN, AREA = 9, 11
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
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="For people or programs.")
def doctor(target: str | None, app: str | None, database_url: str | None, sql: bool, output: str) -> None:
    """Find misconfigurations: of the database and its schema, of settings, processes, access and jobs, each with its
    remedy. It changes nothing. Exit code 1: at least one error; warnings alone give 0."""
    logging.getLogger("mainspring").addHandler(logging.NullHandler())  # findings are printed, not logged
    patient = _Patient(target or app, database_url)
    report = asyncio.run(
        examine_installation(patient.settings, patient.url, patient.app, patient.configuration, patient.declarations)
    )
    if sql:
        _print_sql(report)
        return
    if output == "json":
        print_json(_json(report, patient))
    else:
        _print(report, patient)
    if not report.healthy:
        raise click.exceptions.Exit(REFUSED)


class _Patient:
    """What is examined. Settings or declarations that are refused are findings; the rest is examined without them."""

    def __init__(self, target: str | None, url: str | None) -> None:
        self.target = target
        self.app: Mainspring | None = None
        self.settings: Settings | None = None
        self.configuration = ConfigurationFacts()
        self.declarations = None if target is None else DeclarationFacts()
        if target is not None:
            self._load(target)
        if self.app is not None:
            self.settings = self.app._runtime.settings
        else:
            self._load_settings(url)
        self.url = self._database(url)

    def _load(self, target: str) -> None:
        try:
            self.app = load_app(target)
            self.app._runtime.declares  # noqa: B018  # reads the declarations, and refuses bad ones
        except InvalidValue as error:
            if error.field == FIELD:
                raise  # the name is wrong, not the application
            isolation = error.field in ("isolation", "import_path")
            self.declarations = DeclarationFacts(**{"isolation_error" if isolation else "error": str(error)})
        except ConfigurationError as error:
            self.configuration = ConfigurationFacts(str(error))
        except MainspringError as error:
            self.declarations = DeclarationFacts(error=str(error))

    def _load_settings(self, url: str | None) -> None:
        try:
            self.settings = load({"database_url": url})
        except MainspringError as error:
            self.configuration = ConfigurationFacts(str(error))

    def _database(self, url: str | None) -> str | None:
        if url is not None:
            return url
        if self.app is not None and self.app._runtime.given_store is not None:
            return None
        return (self.settings or Settings()).process.database_url

    @property
    def name(self) -> str:
        return "the application's own store" if self.url is None else without_password(self.url)


def _json(report: Report, patient: _Patient) -> dict[str, object]:
    return {
        "database": patient.name,
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
    click.echo(report.script, nl=False)


# --- for people -------------------------------------------------------------------------------------------------------


def _print(report: Report, patient: _Patient) -> None:
    click.echo(f"Examined {patient.name}{f' with {patient.target}' if patient.target else ''}\n")
    for each in report.findings:
        _line(each.severity, each.area, each.words)
        _line("", "", f"→ {each.remedy}", "  ")
    if report.findings:
        click.echo()
    for area in report.fine:
        _line("ok", area, AREAS[area])
    for skipped in report.skipped:
        many = f"{len(skipped.checks)} checks" if len(skipped.checks) > 3 else ", ".join(skipped.checks)
        _line("skipped", "", f"{many}: {skipped.reason}")
    click.echo(f"\n{_summary(report)}")
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
        click.echo(f"The repair of the schema has {len(lines)} lines: mainspring doctor --sql > repair.sql")
    elif lines:
        click.echo("The statements that repair the schema (they were not run):\n")
        click.echo(textwrap.indent(script, "    "), nl=False)


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
