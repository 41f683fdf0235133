"""Links to lines of files at the host of their git repository."""

import posixpath
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.diagnostics import Span
from reconciler.manifests.files import SETTINGS_FILE, STDIN

# The link to a line at each kind of host. Gitea and Forgejo set GitHub's variables, too.
_GITHUB = "{server}/{repository}/blob/{revision}/{path}#L{line}"
_GITEA = "{server}/{repository}/src/commit/{revision}/{path}#L{line}"
_GITLAB = "{project}/-/blob/{revision}/{path}#L{line}"


class Links(Struct, frozen=True):
    """The place of the project in its repository, and the links of the host.

    `folder`: of the project, from the root of the checkout; "" for the root itself. `link`: to a line, with
    `{revision}`, `{path}` and `{line}`; "" where no host is known. `revision`: the commit, for a report that
    does not know its own. `settings`: the path of the project's `reconcile.yaml`; "" where it has none.
    """

    folder: str = ""
    link: str = ""
    revision: str = ""
    settings: str = ""

    def path(self, file: str) -> str:
        """The path of `file` from the root of the checkout; "" outside of it, as for standard input."""
        if file == STDIN or file.startswith("/"):
            return ""
        path = posixpath.normpath(posixpath.join(self.folder, file))
        return "" if path.startswith("../") else path

    def url(self, span: Span, revision: str = "") -> str:
        """The link to the first line of `span` at `revision`; "" where there is none."""
        path, commit = self.path(span.file), revision or self.revision
        if not (self.link and path and commit):
            return ""
        return self.link.format(revision=quote(commit, safe=""), path=quote(path), line=span.line)


NO_LINKS = Links()


def links_of(root: Path, variables: Mapping[str, str]) -> Links:
    """The links of the project at `root`, from the environment `variables` of a CI job.

    The checkout starts at the nearest folder above with `.git` in it.
    """
    checkout = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), root)
    folder = root.relative_to(checkout).as_posix()
    link, revision = _host(variables)
    links = Links("" if folder == "." else folder, link, revision)
    has_settings = (root / SETTINGS_FILE).is_file()
    return replace(links, settings=links.path(SETTINGS_FILE)) if has_settings else links


def _host(variables: Mapping[str, str]) -> tuple[str, str]:
    """The form of the links, and the commit of the job; "" and "" where the host is not known."""
    gitlab, server, repository = map(
        variables.get, ("CI_PROJECT_URL", "GITHUB_SERVER_URL", "GITHUB_REPOSITORY")
    )
    if server and repository:
        gitea = variables.get("GITEA_ACTIONS") or variables.get("FORGEJO_ACTIONS")
        form = (_GITEA if gitea else _GITHUB).replace("{server}", _base(server))
        form, revision = form.replace("{repository}", quote(repository)), variables.get("GITHUB_SHA", "")
    elif gitlab:
        form, revision = _GITLAB.replace("{project}", _base(gitlab)), variables.get("CI_COMMIT_SHA", "")
    else:
        return "", ""
    return (form, revision) if form.startswith(("https://", "http://")) else ("", "")


def _base(url: str) -> str:
    """Escape the characters of `url` that could end a link, or be taken for a field of the form."""
    return quote(url.rstrip("/"), safe=":/.-_~")
