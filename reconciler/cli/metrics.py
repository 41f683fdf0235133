"""`--report openmetrics=FILE`: the numbers of one run, which a controller would give after the same look."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import click

from reconciler.cli.command_line import command_line
from reconciler.core.errors import ReconcilerError
from reconciler.core.extras import require_extra
from reconciler.planning.declared import Desired
from reconciler.project.project import Project

T = TypeVar("T")


def is_asked() -> bool:
    """Whether this command line asks for openmetrics. Raises ReconcilerError without the extra."""
    line = command_line()
    formats = (line.format, *(file.format for file in line.files))
    if asked := any(each is not None and each.name == "openmetrics" for each in formats):
        require_extra("controller", "the format openmetrics")
    return asked


def counting(desired: Desired) -> Callable[[Project, Awaitable[T]], Awaitable[T]]:
    """Awaits a drift, an applied plan, or a plan with more, and counts it where a report asks for that.

    Raises ReconcilerError without the extra, and UsageError for a run about parts of scopes.
    """
    line = command_line()
    asked = is_asked()
    if asked and (desired.targets or desired.focus is not None or desired.moved is not None):
        raise click.UsageError("openmetrics is about whole scopes: leave PATHs and --target out")

    async def count(project: Project, making: Awaitable[T]) -> T:
        made = await making
        if asked:
            from reconciler.controller.metrics import text_of_run  # needs the extra

            with suppress(ReconcilerError):  # what was done counts, also where the state cannot be read
                line.metrics = await text_of_run(project, desired, made)
        return made

    return count
