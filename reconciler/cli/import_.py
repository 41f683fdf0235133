"""`reconcile import`: writes manifests of objects that run on the platform already."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from reconciler.cli import options
from reconciler.cli.chosen_state import ChosenState
from reconciler.cli.command_line import of_this_run
from reconciler.cli.event_loop import Watch, run_watched
from reconciler.cli.output import emit
from reconciler.cli.signals import Interrupted
from reconciler.cli.verb import DONE, FAILED, argument, code_of, flag, option, report_failure, verb
from reconciler.core.diagnostics import has_errors
from reconciler.core.errors import ReconcilerError
from reconciler.importing.files import (
    Planned,
    arrange,
    declared,
    default_folder,
    is_below,
    is_configured,
    put_all,
)
from reconciler.importing.search import Wanted, meaning
from reconciler.importing.unmanaged import Unmanaged, find_unmanaged, import_page
from reconciler.kinds.manifest import ManifestKind

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,126}")


class FolderPath(click.Path):
    """A folder's path. pathlib takes an empty one for the working directory."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "" and param is not None:
            raise options.empty_option(param)
        return super().convert(value, param, ctx)


@verb("import")
def command(
    chosen: ChosenState,
    words: Sequence[str] = argument(nargs=-1, metavar="[APP | APP/ID | ID]..."),
    organizations: Sequence[str] = option(
        "--org", "All clusters of an organization.", multiple=True, metavar="SLUG"
    ),
    apps: Sequence[str] = option(
        "--app", "Treat APP as an app name even if it looks like an id.", multiple=True, metavar="APP"
    ),
    clusters: Sequence[str] = option("--cluster", "One cluster, by its id.", multiple=True, metavar="ID"),
    machines: bool = flag("--machines", "Also the machines of each APP; their power stays unmanaged."),
    out: Path | None = option(
        "--out",
        "Where the files go; default: the first of the configured manifests.",
        type=FolderPath(file_okay=False, path_type=Path),
        metavar="DIR",
    ),
    dry_run: bool = flag("--dry-run", "Show what would be written, and write nothing."),
) -> int:
    """Write manifests of volumes and clusters that are not declared or recorded yet; change nothing else.

    APP is everything of an app, APP/ID one object of it, ID a volume or a cluster. The plan that
    follows adopts what was written. Existing files are added to; run again, it adds what is new.
    Exit 1 when something that was named could not be read or found: the rest is written.
    """
    wanted = _wanted(words, organizations, apps, clusters, machines=machines)
    found = chosen.config
    folder = out or default_folder(found)
    present = declared(found, folder)

    async def work(watch: Watch) -> tuple[Unmanaged, list[Planned]]:
        async with chosen.project() as project:
            unmanaged = await find_unmanaged(project, present, wanted)
        planned = arrange(unmanaged.entries, present, folder)
        if not dry_run:
            await put_all(planned)
        return unmanaged, planned

    try:
        unmanaged, planned = run_watched(work)
    except Interrupted as interrupted:
        failure = ReconcilerError("interrupted", help="files that were written are complete; run it again")
        report_failure(failure)
        return interrupted.code
    emit(import_page(unmanaged, planned, found.root, of_this_run(), dry_run=dry_run))
    if planned and not is_configured(folder, found):
        click.echo(f"note: `{folder}` is not among the configured manifests: name it to `plan`", err=True)
    elif planned and found.env and not is_below(folder, found.root / found.overlay):
        own = f"--out {os.path.relpath(found.root / found.overlay)} keeps them to {found.env}"
        click.echo(f"note: manifests in `{folder}` count in every environment; {own}", err=True)
    problems = unmanaged.diagnostics
    return code_of(problems, FAILED if has_errors(problems) else DONE)


def _wanted(
    words: Sequence[str],
    organizations: Sequence[str],
    apps: Sequence[str],
    clusters: Sequence[str],
    *,
    machines: bool,
) -> Wanted:
    """The apps, objects and ids that the command line names. Raises click.UsageError for other words."""
    if not (words or organizations or apps or clusters):
        raise click.UsageError("name what to import: apps, ids, or --org SLUG")
    bare: dict[str, list[str]] = {"app": list(map(_app, apps)), "id": [], "either": []}
    objects = []
    for word in words:
        app, slash, id = word.partition("/")
        if slash:
            objects.append((_app(app), _id(id)))
        else:
            bare[meaning(word)].append(_app(word))
    return Wanted(
        bare["app"],
        [_id(slug) for slug in organizations],
        objects,
        bare["id"],
        [_id(id) for id in clusters],
        [word for word in bare["either"] if word not in apps and word not in clusters],
        frozenset({"Machine"} if machines else ()),
    )


def _app(word: str) -> str:
    """`word` as the name of an app. Raises UsageError."""
    if not re.fullmatch(ManifestKind.name_pattern, word):
        raise click.UsageError(f"`{word}` is neither an app nor an id")
    return word


def _id(word: str) -> str:
    """`word` as an id of the platform. Raises UsageError."""
    if not _ID.fullmatch(word):
        raise click.UsageError(f"`{word}` is not a valid id")
    return word
