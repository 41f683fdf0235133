"""`reconcile start`: a new project in this folder, from a few questions."""

import sys
from pathlib import Path

import click

from reconciler.cli import options
from reconciler.cli.manifests import validate
from reconciler.cli.verb import verb
from reconciler.core.context import BASE
from reconciler.project.sections import ENVIRONMENT, check_address
from reconciler.starting.write import Answers, find_host, write_project

_QUESTIONS = ("Address of the platform", "App of the first manifest", "Name of the first environment")
_NEXT = """
Next:
  export RECONCILE_TOKEN=…                     of the platform; to plan, one that can only read will do
  reconcile doctor --env {0}
  reconcile import --env {0} APP               manifests of what runs already in APP
  reconcile state init --env {0}               once, by hand: a lost state comes back from a backup
  reconcile plan --env {0}
To try things first, on an emulated platform: reconcile demo, in an empty folder."""


@verb("start", options.AUTO_APPROVE, report=None)
def start(auto_approve: bool) -> int:
    """Write a new project into this folder: settings, a manifest, an environment, and a job for CI.

    A file that is there stays as it is. With --yes, the suggestions are taken.
    """
    answers, host = Answers(), find_host(Path.cwd())
    if not auto_approve:
        if not sys.stdin.isatty():
            raise click.UsageError("cannot ask on standard input: pass --yes to take the suggestions")
        asked = zip(_QUESTIONS, answers, strict=True)
        answers = Answers(*(click.prompt(question, suggested) for question, suggested in asked))
        host = click.prompt("CI service", host, type=click.Choice(["github", "gitlab", "cron"]))
    check_address(answers.base_url)
    for name in answers[1:]:
        if not ENVIRONMENT.fullmatch(name) or name == BASE:
            raise click.UsageError(f"`{name}`: take at most 63 lower-case letters, digits and `-`")
    for written in write_project(Path.cwd(), answers, host):
        click.echo(f"{'kept' if written.kept else 'wrote':<5}  {written.name}")
        if written.lacks:
            click.echo(f"       it lacks:\n{written.lacks}")
    code: int = click.get_current_context().invoke(validate)
    click.echo(_NEXT.format(answers.environment))
    return code
