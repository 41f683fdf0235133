"""Generated files of the site, made whenever it is built: reference pages, and the pages for programs."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from reconciler.agents import guide
from reconciler.cli.reference import cli_markdown
from reconciler.manifests.authoring.explain import all_explanations, all_kinds
from reconciler.reports.explain import code_markdown, kind_markdown


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
