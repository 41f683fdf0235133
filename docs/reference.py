"""Generated pages of the site, made whenever it is built: from the models and from the command line."""

from collections.abc import Iterator

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from reconciler.cli.main import cli


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """mkdocs calls this with the files it found; those below reference/ are added."""
    for name, text in {
        "command-line": "\n".join(_commands(cli, click.Context(cli, info_name="reconcile")))
    }.items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def _commands(command: click.Command, context: click.Context, depth: int = 1) -> Iterator[str]:
    """Help of `command` and of those below it, as Markdown."""
    title = "Command line" if depth == 1 else f"`{context.command_path}`"
    yield f"{'#' * min(depth, 3)} {title}\n\n```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _commands(below, click.Context(below, info_name=name, parent=context), depth + 1)
