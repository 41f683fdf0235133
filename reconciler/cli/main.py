"""The `reconcile` command: finds the verb, turns failures into messages and exit codes."""

import gc
import io
import os
import sys
from contextlib import redirect_stderr, suppress
from typing import Any

import click
from click.shell_completion import get_completion_class

from reconciler.cli.group import Group, Verb
from reconciler.cli.signals import until_interrupted
from reconciler.cli.streams import OutputLost, open_streams

USAGE = 64
ASKED = "_RECONCILE_COMPLETE"  # set by the scripts of `completion` when somebody presses Tab

# By what somebody wants to do, and in each part in the order in which a new user meets them. What programs
# rather than people use comes last.
VERBS = {
    "Daily": {
        "plan": Verb("plan", "show what apply would do"),
        "apply": Verb("apply", "make the platform match the manifests"),
        "controller": Verb("controller", "run by itself: look, do what is allowed, propose the rest"),
        "drift": Verb("drift", "show what changed on the platform without us"),
        "drill": Verb("drill", "restore a copy, look at it, and delete it again"),
        "show": Verb("objects", "show one resource: live fields, snapshots, what is owed"),
        "forecast": Verb("forecast", "say which volumes will be full, and when"),
        "doctor": Verb("doctor", "check token, address, clock, state, lock and unfinished calls"),
        "resolve": Verb("objects", "settle a call with an unknown outcome"),
    },
    "Review": {
        "validate": Verb("manifests", "check manifests without asking the platform"),
        "build": Verb("manifests", "print the manifests as an environment has them"),
        "graph": Verb("manifests", "draw the resources and their order"),
        "approve": Verb("approve", "sign a saved plan with an SSH key"),
        "policy": Verb("policy", "try guardrails: test, backtest"),
        "history": Verb("history", "show what was done, by whom and why"),
        "bundle": Verb("evidence", "write the evidence of one run to a file"),
        "verify": Verb("evidence", "verify such a file, offline"),
        "inventory": Verb("inventory", "list all that is there, its owners and its price"),
        "comment": Verb("comment", "show a report in its pull request: a comment and a status"),
    },
    "Repair": {
        "undo": Verb("undo", "show what would take a run back, and what cannot be"),
        "state": Verb(
            "state", "init, list, show, mv, forget, unlock, backup, restore, migrate, ingest, set-platform"
        ),
        "secret": Verb("secret", "encrypt a value, compare fingerprints"),
        "extension": Verb("objects", "sign in to an extension: sso"),
    },
    "Build": {
        "start": Verb("start", "write a new project: settings, a manifest, a job for CI"),
        "demo": Verb("demo", "try it on a small shop, with troubles and famous accidents"),
        "import": Verb("import_", "write manifests of what runs on the platform"),
        "new": Verb("authoring", "print a commented manifest of a kind, to be filled in"),
        "explain": Verb("authoring", "explain a kind, a field, or the code of an error"),
        "sandbox": Verb("sandbox", "run the emulated platform"),
        "provider": Verb("provider", "build and prove extension providers: serve, check"),
        "mcp": Verb("mcp", "serve tools for agents, which only read"),
        "schema": Verb("authoring", "print the JSON Schema of the manifests"),
        "completion": Verb("main", "print the script for a shell's completion"),
    },
}


@click.group(
    cls=Group,
    late=VERBS,
    moved={
        "rehearse": "plan --rehearse [--plan FILE]",
        "init": "start",
        "status": "doctor",
    },
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
        from reconciler.cli.progress import log_to_stderr  # `--help` imports no more than click

        log_to_stderr(debug=verbose > 1)


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script for SHELL's completion of verbs, options, paths and addresses.

    For bash (4.4 or newer): `source <(reconcile completion bash)`, in ~/.bashrc to have it always.
    """
    of_shell = get_completion_class(shell)
    assert of_shell is not None
    click.echo(of_shell(ctx.find_root().command, {}, "reconcile", ASKED).source(), nl=False)


def main() -> None:
    """Entry point. Exits with the codes of DESIGN, section 3; never with a traceback for a known failure."""
    open_streams()
    # A plugin of pydantic that some package brings would see each value that is validated. Set it to "" to
    # allow them. Without it, each command also reads what every installed package says of itself.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # A command allocates much and releases little: collecting garbage costs a large plan more than 5 %, and
    # frees almost nothing. A small command ends before the first collection.
    gc.set_threshold(500_000, 50, 100)
    code = until_interrupted(lambda: run(sys.argv[1:]))
    # The interpreter collects once more at its end: a fifth of a short command's time, without `freeze`.
    gc.freeze()
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command line; returns its exit code. Known failures are printed, defects are raised."""
    if ASKED in os.environ:
        # A message in the middle of somebody's line would help nobody: nothing where anything goes wrong.
        with suppress(Exception, SystemExit), redirect_stderr(io.StringIO()):
            cli.main([], prog_name="reconcile", standalone_mode=False)
        return 0
    try:
        code: Any = cli.main(arguments, prog_name="reconcile", standalone_mode=False)
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
        return USAGE if isinstance(failure, click.UsageError) else 1
    return code if isinstance(code, int) else 0
