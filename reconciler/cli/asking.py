"""Asking the person at the terminal."""

import click

from reconciler.cli.signals import blocking


def confirmed(question: str) -> bool:
    """What a person answers; the end of input (Ctrl-D) means no. Raises signals.Interrupted."""
    with blocking():
        try:
            return click.confirm(question, err=True)
        except click.Abort:
            click.echo(err=True)  # the answer's line has no end yet
            return False
