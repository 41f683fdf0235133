"""Files that options name."""

from pathlib import Path

import click

from reconciler.pipeline.files import why_not_written


def refuse_output(option: str, path: Path) -> None:
    """Raises UsageError where `path` must not be replaced."""
    why = why_not_written(path)
    if why:
        raise click.UsageError(f"{option}: `{path}` {why}: name another file")
