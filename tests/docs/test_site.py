"""The documentation's site: built by one command, from one source, without a broken link."""

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from reconciler.cli.main import cli
from reconciler.pipeline.explain import all_explanations
from reconciler.policies import find_manifest_kinds
from tests.docs.pages import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(built)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    return built


def test_every_page_is_in_the_site(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs")).with_suffix(".html").is_file()


def test_the_reference_names_every_verb_kind_and_code(site: Path) -> None:
    verbs = cli.list_commands(cli.make_context("reconcile", [], resilient_parsing=True))
    assert _missing(site, "command-line", [f"reconcile {verb}" for verb in verbs]) == []
    assert _missing(site, "fields", find_manifest_kinds()) == []
    assert _missing(site, "errors", [page.code for page in all_explanations()]) == []


def _missing(site: Path, page: str, names: Iterable[str]) -> list[str]:
    """Those of `names` that are in no heading of the page."""
    text = (site / f"reference/{page}.html").read_text(encoding="utf-8")
    headings = re.findall(r"<h2[^>]*>(.*?)</h2>", text)
    return [name for name in names if not any(name in heading for heading in headings)]
