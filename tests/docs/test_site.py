"""The documentation's site: built by one command, from one source, without a broken link."""

import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.cli.main import cli
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


def test_every_verb_has_its_place_in_the_reference(site: Path) -> None:
    reference = (site / "reference/command-line.html").read_text(encoding="utf-8")
    for verb in cli.list_commands(cli.make_context("reconcile", [], resilient_parsing=True)):
        assert f">reconcile {verb}<" in reference, verb
