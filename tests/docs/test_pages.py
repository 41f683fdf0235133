"""Every command that the documentation gives runs, and shows what the page says; every example is valid."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.guardrails.kinds import find_guardrails
from reconciler.manifests.load import load
from reconciler.manifests.reading.compose import compose
from reconciler.policies import find_manifest_kinds
from reconciler.project.sections import Settings
from tests.docs import pages
from tests.docs.installed import extras_of
from tests.docs.pages import ROOT, Block
from tests.providers.check.reference import SIGNING, WEBHOOK, Reference, serving
from tests.providers.postgres import Postgres

NAMES = [page.relative_to(ROOT).as_posix() for page in pages.pages()]
RUN = [name for name in NAMES if pages.steps(ROOT / name)]
LANGUAGES = {"console", "yaml", "json", "text", "python"}
PROVIDERS, CHECK = "docs/providers.md", "docs/provider-check.md"
POSTGRESQL = "docs/how-to/postgresql.md"
SHARED = "docs/how-to/shared-state.md"  # its bucket is moto's, which the tests have
Installed = Callable[..., str]
# pytest as it is here, instead of a download.
PYTEST = "; ".join(
    [
        "mkdir more",
        *(
            f"ln -s {Path(pytest.__file__).parents[1] / name} more"
            for name in ("pytest", "_pytest", "py.py", "pluggy", "iniconfig", "packaging", "pygments")
        ),
        "export PYTHONPATH=more",
    ]
)
SUBSTITUTES = {  # of what a test must not change, or download
    "docs/how-to/history.md": {"pip install pytest": PYTEST},
}
SERVER = "postgresql://postgres:PASSWORD@db.example.com:5432/postgres"  # a reader's own
RUNBOOK = "docs/how-to/runbook.md"  # troubles that are played apart from each other
# Commands start cold where a shell limits them or two run at a time; so do the README's, as a reader's do.
COLD_TROUBLES = {"The disk is full", "Someone else holds the lock"}


@pytest.mark.parametrize(
    "name", [name for name in RUN if name not in {PROVIDERS, CHECK, POSTGRESQL, SHARED, RUNBOOK}]
)
def test_the_commands_run_and_show_what_the_page_says(
    name: str, installed: Installed, tmp_path: Path
) -> None:
    page = ROOT / name
    programs = installed(extras_of(page), warm=name != "README.md")
    problems = pages.run(page, tmp_path, programs=programs, substitutes=SUBSTITUTES.get(name))
    assert not problems, "\n\n".join(problems)


@pytest.mark.parametrize("trouble", pages.sections(ROOT / RUNBOOK))
def test_a_trouble_of_the_runbook_shows_as_it_says_and_is_cured(
    trouble: str, installed: Installed, tmp_path: Path
) -> None:
    page = ROOT / RUNBOOK
    programs = installed(extras_of(page), warm=trouble not in COLD_TROUBLES)
    problems = pages.run(page, tmp_path, section=trouble, programs=programs)
    assert not problems, "\n\n".join(problems)


def test_the_commands_about_providers_run(postgres: Postgres, installed: Installed, tmp_path: Path) -> None:
    page = ROOT / PROVIDERS
    substitutes = {SERVER: postgres.url}
    assert pages.run(page, tmp_path, programs=installed(extras_of(page)), substitutes=substitutes) == []


def test_the_commands_about_a_state_in_postgresql_run(
    postgres: Postgres, installed: Installed, tmp_path: Path
) -> None:
    server = postgres.url.rpartition("@")[2].partition("/")[0]
    substitutes = {SERVER: postgres.url, "db.example.com:5432": server}
    page = ROOT / POSTGRESQL
    assert pages.run(page, tmp_path, programs=installed(extras_of(page)), substitutes=substitutes) == []


def test_the_commands_about_a_shared_state_run(installed: Installed, tmp_path: Path) -> None:
    substitutes = {"pip install": "true", "python bucket.py": f"{sys.executable} bucket.py"}
    page = ROOT / SHARED
    assert pages.run(page, tmp_path, programs=installed(extras_of(page)), substitutes=substitutes) == []


def test_the_commands_that_check_a_provider_run(installed: Installed, tmp_path: Path) -> None:
    """On a provider of the tests, and of its checks only some: the others stand in tests/providers/check."""
    page = ROOT / CHECK
    with serving(Reference()) as app:
        substitutes = {
            "https://staging.example.com/platform": f"{app.url} --only calls",
            "STAGING_SIGNING_SECRET=…": f"STAGING_SIGNING_SECRET='{SIGNING.decode()}'",
            "STAGING_WEBHOOK_SECRET=…": f"STAGING_WEBHOOK_SECRET='{WEBHOOK.decode()}'",
        }
        assert pages.run(page, tmp_path, programs=installed(extras_of(page)), substitutes=substitutes) == []


def test_the_vectors_of_signatures_are_as_the_page_says(tmp_path: Path) -> None:
    text = (ROOT / CHECK).read_text(encoding="utf-8")
    (words,) = re.findall(r"`python (-m tests\.providers\.vectors [^`]*)`", text)
    out = tmp_path / "vectors.jsonl"
    command = [sys.executable, *words.replace("vectors.jsonl", str(out)).split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert f"```text\n{done.stdout}```" in text
    assert out.read_text().count("\n") == 2400


def set_up_commands() -> list[str]:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    return [block.strip() for block in re.findall(r"```sh\n(.*?)```", readme, re.DOTALL)]


def test_ci_runs_the_commands_that_the_readme_gives_for_setting_up_and_testing() -> None:
    script = (ROOT / ".ci/run").read_text().splitlines()
    first, second = set_up_commands()
    assert first in script
    (covered,) = re.findall(r"^covered=\((.*)\)$", "\n".join(script), re.MULTILINE)
    assert all((ROOT / folder).is_dir() for folder in covered.split())
    assert 'measure "${covered[@]}" "${apart[@]/#/--ignore=}" & first=$!' in script
    assert 'measure "${apart[@]}" & second=$!' in script
    assert script[-1] == f'{second} "${{covered[@]/#/--ignore=}}"'


def test_the_changelog_has_a_section_for_this_version() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    sections = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sections[:2] == ["Unreleased", settings["project"]["version"]]


def test_each_action_in_the_documentation_is_pinned_by_a_commit() -> None:
    """A tag can be moved, and jobs hold credentials."""
    jobs = [*(ROOT / ".github/workflows").iterdir(), *(ROOT / "reconciler/starting/files").iterdir()]
    files = [*(ROOT / name for name in NAMES), *jobs]
    used = [line for file in files for line in re.findall(r"- uses: (.*)", file.read_text())]
    assert len(used) >= 10
    assert [each for each in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}( # v[\d.]+)?", each)] == []


def test_the_quick_tier_names_what_exists() -> None:
    """A path that does not would be left out without a word."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    paths = settings["tool"]["pytest"]["ini_options"]["testpaths"]
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_page_hides_nothing(name: str) -> None:
    """A comment is not shown: what only a comment does, a reader cannot do."""
    assert re.findall(r"<!-- (?!reconcile:).*?-->", (ROOT / name).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("name", NAMES)
def test_no_command_hides_in_a_block_that_nothing_runs(name: str) -> None:
    for item in pages.items(ROOT / name):
        if name == "README.md" and item.language == "sh":
            continue
        assert item.language in LANGUAGES, f"{name}:{item.line}"
        assert not Path(item.file).is_absolute(), f"{name}:{item.line} would be written outside of the folder"
        if item.language == "text" and not item.file:
            assert not re.search(r"^(\$ |reconcile )", item.text, re.MULTILINE), f"{name}:{item.line}"


def examples() -> list[tuple[str, Block]]:
    return [
        (name, item)
        for name in NAMES
        for item in pages.items(ROOT / name)
        if item.language in ("yaml", "json")
    ]


@pytest.mark.parametrize(("name", "block"), examples(), ids=lambda each: getattr(each, "line", each))
def test_each_example_is_valid(name: str, block: Block, tmp_path: Path) -> None:
    """Manifests as manifests (what they refer to may stand elsewhere), settings as settings, JSON as JSON."""
    if block.language == "json":
        json.loads(block.text)
    elif "apiVersion: reconciler/v1" in block.text:
        (tmp_path / "example.yaml").write_text(block.text, encoding="utf-8")
        kinds = {**find_manifest_kinds(), **find_guardrails()}  # each where it stands
        loaded = load([str(tmp_path / "example.yaml")], root=tmp_path, kinds=kinds)
        problems = [item for item in loaded.diagnostics if item.code != "unknown-reference"]
        assert loaded.files
        assert problems == []
    elif block.file == "reconcile.yaml":
        (document,) = compose(block.text.encode(), "reconcile.yaml").documents
        Settings.model_validate(document.value)
