"""The manifests that a verb is about: what PATHs, `--env`, `--ref` and `--untrusted` name."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import click

from reconciler.cli.command_line import settings_here, texts_here
from reconciler.cli.progress import PlainReporter
from reconciler.core.model import Address
from reconciler.core.reporter import Reporter
from reconciler.planning.declared import Desired
from reconciler.project.desired import load_desired
from reconciler.project.settings import ProjectSettings


@dataclass  # settings and reporter are made when they are first asked for
class ChosenManifests:
    """What the shared options of one command line say of manifests, and what they lead to.

    `ref`: the git revision that manifests are read at. `untrusted`: the one that settings come from.
    """

    env: str = ""
    ref: str | None = None
    untrusted: str | None = None
    changed_since: str | None = None
    paths: Sequence[str] = ()
    targets: Sequence[Address] = ()

    @cached_property
    def config(self) -> ProjectSettings:
        return settings_here(self.env, ref=self.ref, untrusted=self.untrusted, manifests_only=True)

    @cached_property
    def reporter(self) -> Reporter:
        return make_reporter()

    def load_desired(self, paths: Sequence[str] | None = None) -> Desired:
        """The manifests of `paths` (None: those of the command line), or the configured ones."""
        return load_desired(
            self.paths if paths is None else paths,
            self.config,
            texts_here(),
            self.reporter,
            ref=self.ref,
            changed_since=self.changed_since,
            targets=self.targets,
        )


def make_reporter() -> Reporter:
    """For a terminal, for a log of CI or cron, or (with --verbose) structured events."""
    context = click.get_current_context(silent=True)
    if context is not None and context.find_root().params.get("verbose"):
        from reconciler.cli.logs import LogReporter

        return LogReporter()
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        from reconciler.cli.live import LiveReporter  # rich takes as long to import as a short verb runs

        return LiveReporter()
    return PlainReporter()
