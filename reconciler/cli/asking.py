"""Asking the person at the terminal."""

import click


def confirmed(question: str) -> bool:
    """What a person answers; the end of input (Ctrl-D) means no."""
    try:
        return click.confirm(question, err=True)
    except click.Abort:
        click.echo(err=True)  # the answer's line has no end yet
        return False
