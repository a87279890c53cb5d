"""`mainspring problems`: what needs attention."""

from __future__ import annotations

import click

from ....core.render.problems import problems_json
from ....core.rules.problems import ProblemList
from ...root import example
from ...screens.output import now
from ...screens.problems import print_problems
from ...session import ClientSession, client_options
from ...terminal import echo


@example("problems", "problems -o json")
@click.command()
@client_options
def problems(session: ClientSession) -> None:
    """What needs attention: new errors, late jobs, queues that back up, stuck runs, silent workers and the like, the
    most urgent first."""
    found = session.call(lambda app: app.monitoring.problems())
    session.show(problems_json(found), lambda: _print(found))


def _print(found: ProblemList) -> None:
    if not found.problems:
        echo("Nothing needs attention.")
        return
    print_problems(found.problems, now())
    if found.left_out:
        echo(f"and {found.left_out:,} more")
