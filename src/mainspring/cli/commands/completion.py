"""`mainspring completion`: the script that makes a shell complete commands, options and names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from ..root import example, root
from ..terminal import echo

VARIABLE = "_MAINSPRING_COMPLETE"
"""Set by the script when it asks for completions; click reads it."""


@example("completion bash", "completion zsh", "completion fish")
@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that lets a shell complete commands, options and names.

    The names of jobs, queues, handlers, error groups and others come from the database that the command would use.
    Completion only reads it, for half a second at most.

    \b
    In ~/.bashrc:                   eval "$(mainspring completion bash)"
    In ~/.zshrc, after compinit:    eval "$(mainspring completion zsh)"
    In ~/.config/fish/config.fish:  mainspring completion fish | source
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"click has no completion for {shell}")
    echo(kind(root, {}, "mainspring", VARIABLE).source())
