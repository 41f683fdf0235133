"""Files that options name."""

from pathlib import Path

import click


def refuse_output(option: str, path: Path) -> None:
    """Raises UsageError where `path` must not be replaced."""
    from reconciler.pipeline.files import why_not_written

    why = why_not_written(path)
    if why:
        raise click.UsageError(f"{option}: `{path}` {why}: name another file")
