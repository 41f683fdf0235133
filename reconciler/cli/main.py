"""The `reconcile` command: finds the verb, turns failures into messages and exit codes."""

import gc
import os
import sys
from typing import Any

import click

from reconciler.cli.group import Group
from reconciler.cli.signals import until_interrupted
from reconciler.cli.streams import OutputLost, open_streams

USAGE = 64

_VERBS = {
    "validate": "check manifests without asking the platform",
    "build": "print the manifests as an environment has them",
    "plan": "show what apply would do",
    "approve": "sign a saved plan with an SSH key",
    "apply": "make the platform match the manifests",
    "comment": "show a report in its pull request: a comment and a status",
    "drift": "show what changed on the platform without us",
    "import": "write manifests of what runs on the platform",
    "show": "show one resource: live fields, snapshots, what is owed",
    "history": "show what was done, by whom and why",
    "bundle": "write the evidence of one run to a file",
    "verify": "verify such a file, offline",
    "doctor": "check token, address, clock, state, lock, and what is left open",
    "resolve": "settle a call with an unknown outcome",
    "state": "init, list, show, mv, forget, unlock, backup, restore, migrate, ingest, set-platform",
    "new": "print a commented manifest of a kind, to be filled in",
    "secret": "encrypt a value, compare fingerprints",
    "graph": "draw the resources and their order",
    "schema": "print the JSON Schema of the manifests",
    "explain": "explain a kind, a field, or the code of an error",
    "completion": "print the script for a shell's completion",
    "sandbox": "run the emulated platform",
    "provider": "build and prove extension providers: serve, check",
    "extension": "sign in to an extension: sso",
}


@click.group(
    cls=Group,
    late=_VERBS,
    moved={"rehearse": "plan --rehearse [--plan FILE]"},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 error or refused, 2 changes or drift, 3 a person must decide, "
    "4 still pending, 5 locked, 64 usage, 129/130/143 signals.",
)
@click.version_option(package_name="reconciler")
@click.option("-v", "--verbose", count=True, help="Log to stderr (-vv also logs every request).")
def cli(verbose: int) -> None:
    """Declarative reconciler for Postgres clusters, volumes, snapshots and secrets.

    Write manifests, review them in git, then `reconcile plan`, `apply` and `drift`.
    """
    if verbose:
        from reconciler.cli.logs import log_to_stderr

        log_to_stderr(debug=verbose > 1)


def main() -> None:
    """Entry point. Exits with the codes of DESIGN, section 3; never with a traceback for a known failure."""
    open_streams()
    # A command makes much and throws little away: to look for garbage rarely saves 5 % of a large plan, and
    # a small one comes to its end before the first look.
    gc.set_threshold(500_000, 50, 100)
    code = until_interrupted(lambda: run(sys.argv[1:]))
    # At its end the interpreter looks for garbage in all that is left: a fifth of a short command's time.
    gc.freeze()
    sys.exit(code)


def run(arguments: list[str]) -> int:
    if "_RECONCILE_COMPLETE" in os.environ:
        from reconciler.cli.completion import answer

        return answer(cli)
    try:
        code: Any = cli.main(arguments, prog_name="reconcile", standalone_mode=False)
    except click.UsageError as usage:
        usage.show()
        return USAGE
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return 130
    except OutputLost as lost:
        click.echo(f"error: {lost}", err=True)
        return 1
    except click.ClickException as failure:
        failure.show()
        return 1
    return code if isinstance(code, int) else 0
