"""All commands as Markdown, read from the commands themselves: the reference of the command line."""

import inspect
from collections.abc import Iterator

import click

from reconciler.cli.main import cli


def cli_markdown() -> str:
    """A section of second level per command, with its usage, its help and its options.

    Imports every verb.
    """
    return "\n".join(_sections(cli, click.Context(cli, info_name="reconcile", **cli.context_settings)))


def _sections(command: click.Command, context: click.Context) -> Iterator[str]:
    """The lines about `command`, then those about its subcommands."""
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield from (f"## {context.command_path}", "", f"```text\n{usage}\n```", "")
    yield from (inspect.cleandoc(command.help or "").replace("\b\n", ""), "")
    options = [option for option in command.get_params(context) if isinstance(option, click.Option)]
    records = [record for option in options if (record := option.get_help_record(context)) is not None]
    yield from ("| option | meaning |", "|---|---|")
    yield from (f"| `{_cell(names)}` | {_cell(meaning)} |" for names, meaning in records)
    yield ""
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            if not inner.hidden:
                yield from _sections(inner, click.Context(inner, parent=context, info_name=name))


def _cell(text: str) -> str:
    """`text` as one cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")
