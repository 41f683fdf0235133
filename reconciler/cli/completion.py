"""`reconcile completion`: the script that makes a shell complete verbs, options, paths and addresses."""

import io
from contextlib import redirect_stderr

import click
from click.shell_completion import get_completion_class

ASKED = "_RECONCILE_COMPLETE"  # set by those scripts when somebody presses Tab


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> int:
    """Print the script for SHELL's completion of verbs, options, paths and addresses.

    For bash (4.4 or newer): `source <(reconcile completion bash)`, in ~/.bashrc to have it always.
    """
    of_shell = get_completion_class(shell)
    assert of_shell is not None
    click.echo(of_shell(ctx.find_root().command, {}, "reconcile", ASKED).source(), nl=False)
    return 0


def answer(cli: click.Command) -> int:
    """Print what the shell asked for in the environment; nothing at all when anything goes wrong.

    A message in the middle of somebody's line would help nobody.
    """
    try:
        with redirect_stderr(io.StringIO()):
            cli.main([], prog_name="reconcile", standalone_mode=False)
    except (Exception, SystemExit):
        return 0
    return 0
