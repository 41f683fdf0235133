"""Generated pages of the site, made whenever it is built: from the models and from the command line."""

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

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
