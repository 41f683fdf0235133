"""`reconcile validate`: manifests alone, no platform, no state."""

from dataclasses import replace

from reconciler.cli import options
from reconciler.cli.chosen_manifests import ChosenManifests
from reconciler.cli.command_line import texts_here
from reconciler.cli.output import emit
from reconciler.cli.verb import DONE, FAILED, verb
from reconciler.core.context import BASE
from reconciler.core.diagnostics import has_errors
from reconciler.project.desired import validate
from reconciler.project.manifests import environments_at
from reconciler.project.settings import refuse_unknown_environment
from reconciler.reports.report import ValidationReport


@verb("validate", *options.MANIFESTS, report="validate")
def command(chosen: ChosenManifests) -> int:
    """Check manifests: files, directories, or - for stdin. Exit 0 when they hold no error, else 1.

    Without --env, they are checked as they are without an overlay, and as each environment has them.

    With --changed-since, all of them are checked, and what differs is listed.
    """
    config = replace(chosen, env=chosen.env or BASE).config
    names = [chosen.env] if chosen.env else [BASE, *environments_at(config, chosen.ref)]
    default = config.settings.default_environment
    if not chosen.env and default is not None and default not in names:
        refuse_unknown_environment(default, names[1:], config.settings.overlays)
    environments = [config.of(name) for name in names]
    found = validate(chosen.paths, environments, texts_here(), chosen.ref, chosen.changed_since)
    differs = chosen.changed_since is not None
    emit(
        ValidationReport(
            resources=len(found.addresses),
            files=tuple(sorted(found.files)),
            environments=tuple(names) if len(names) > 1 else (),
            changed=tuple(sorted(map(str, found.differ))) if differs else None,
            dependants=tuple(sorted(map(str, found.dependants))),
            diagnostics=found.diagnostics,
        )
    )
    return FAILED if has_errors(found.diagnostics) else DONE
