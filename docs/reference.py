"""Generated files of the site, made whenever it is built: reference pages, and the pages for programs."""

import inspect
from collections.abc import Iterator
from pathlib import Path

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from reconciler.agents import guide
from reconciler.cli.main import cli
from reconciler.explanations import Explanation
from reconciler.manifests.authoring.explain import all_explanations, all_kinds
from reconciler.manifests.authoring.reference import FieldPage, KindPage
from reconciler.reports.explain import FENCE, TITLE, signature


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """mkdocs calls this with the files it found; those below reference/ are added."""
    pages = {
        "command-line": ("Command line", [cli_markdown()]),
        "fields": ("Fields of the kinds", map(kind_markdown, all_kinds())),
        "errors": ("Errors and warnings", map(code_markdown, all_explanations())),
    }
    for name, (title, sections) in pages.items():
        text = "\n\n".join([f"# {title}", *sections])
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


_read: dict[str, tuple[str, str]] = {}  # the title and the Markdown of each page, by its path


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> None:
    """mkdocs calls this with each page: its Markdown is kept for the copy."""
    _read[page.file.src_uri] = (page.title or page.file.src_uri, markdown)


def on_post_build(config: MkDocsConfig) -> None:
    """mkdocs calls this at the end: beside each page, its Markdown; and llms.txt, which lists them all."""
    site = Path(config.site_dir)
    for name, (_, markdown) in _read.items():
        (site / name).write_text(markdown, encoding="utf-8")
    lines = [f"- [{title}]({name})" for name, (title, _) in sorted(_read.items())]
    about = [f"# {config.site_name}", f"> {config.site_description}", "For agents: [the guide](agents.md)."]
    (site / "agents.md").write_text(guide(), encoding="utf-8")
    (site / "llms.txt").write_text("\n\n".join([*about, "\n".join(lines)]) + "\n", encoding="utf-8")


# --- the command line ---


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


# --- kinds and codes ---


def kind_markdown(page: KindPage) -> str:
    """A section of second level with a table of all fields."""
    rows = [_row(field) for field in page.all_fields() if not field.path.startswith(("apiVersion", "kind"))]
    table = ["| field | type | meaning | when it changes |", "|---|---|---|---|", *rows]
    return "\n".join(
        [f"## {page.name}", "", page.description, "", f"```yaml\n{page.example}```", "", *table, ""]
    )


def _row(field: FieldPage) -> str:
    cells = (f"`{field.path}`", signature(field), field.description, field.change)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def code_markdown(explanation: Explanation) -> str:
    """A section of second level; the headings of the page are one level deeper."""
    lines = []
    fenced = False
    for line in explanation.text.splitlines():
        fenced ^= bool(FENCE.match(line))
        lines.append(f"#{line}" if TITLE.match(line) and not fenced else line)
    return "\n".join([f"## {explanation.code}", "", f"{explanation.title}.", "", *lines, ""])
