"""Files of a report as links to the host of the repository, by what CI says of itself."""

from pathlib import Path

import pytest

from reconciler.core.diagnostics import Span
from reconciler.reports.links import NO_LINKS, Links, links_of

GITHUB = {
    "GITHUB_SERVER_URL": "https://github.com",
    "GITHUB_REPOSITORY": "team/infra",
    "GITHUB_SHA": "3f2a9c1d",
}
GITLAB = {"CI_PROJECT_URL": "https://gitlab.example/team/infra", "CI_COMMIT_SHA": "3f2a9c1d"}
SPAN = Span("manifests/data.yaml", 7, 1, 2)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "deep").mkdir()
    return tmp_path / "deep"


@pytest.mark.parametrize(
    ("variables", "url"),
    [
        (GITHUB, "https://github.com/team/infra/blob/3f2a9c1d/deep/manifests/data.yaml#L7"),
        (
            {**GITHUB, "GITEA_ACTIONS": "true"},
            "https://github.com/team/infra/src/commit/3f2a9c1d/deep/manifests/data.yaml#L7",
        ),
        (GITLAB, "https://gitlab.example/team/infra/-/blob/3f2a9c1d/deep/manifests/data.yaml#L7"),
        ({**GITHUB, "GITHUB_SHA": ""}, ""),
        ({**GITHUB, "GITHUB_SERVER_URL": "javascript:alert(1)"}, ""),
        ({}, ""),
    ],
)
def test_a_line_is_linked_as_the_host_names_it(root: Path, variables: dict[str, str], url: str) -> None:
    assert links_of(root, variables).url(SPAN) == url


def test_the_revision_of_a_report_comes_before_that_of_the_job(root: Path) -> None:
    assert "/blob/aaaa/" in links_of(root, GITHUB).url(SPAN, "aaaa")


def test_without_a_repository_files_are_those_of_the_project(tmp_path: Path) -> None:
    assert links_of(tmp_path, {}) == NO_LINKS
    assert NO_LINKS.path("manifests/data.yaml") == "manifests/data.yaml"


def test_the_settings_have_a_place_where_there_are_some(root: Path) -> None:
    assert links_of(root, {}).settings == ""
    (root / "reconcile.yaml").touch()
    assert links_of(root, {}).settings == "deep/reconcile.yaml"


@pytest.mark.parametrize("file", ["<stdin>", "/etc/passwd", "../../elsewhere.yaml"])
def test_a_file_outside_of_the_checkout_has_no_place(file: str) -> None:
    links = Links("deep", "https://git.example/{revision}/{path}#L{line}", "a")
    assert links.path(file) == ""
    assert links.url(Span(file, 1, 1, 1)) == ""
    assert links.path("../beside.yaml") == "beside.yaml"


def test_no_name_and_no_variable_leaves_its_place_in_a_link(root: Path) -> None:
    variables = {
        **GITHUB,
        "GITHUB_REPOSITORY": 'a"><script>{path}',
        "GITHUB_SERVER_URL": "https://h/{line}\"'",
    }
    url = links_of(root, variables).url(Span('"><b>{line} x.yaml', 1, 1, 1), '"><i>')
    assert not set("\"'<>{} ") & set(url)
