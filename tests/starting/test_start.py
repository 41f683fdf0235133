"""`reconcile start`: a project that validates, and nothing of anybody else is touched."""

import subprocess
from pathlib import Path

import pytest

from tests.cli.harness import Project
from tests.cli.terminal import on_a_terminal
from tests.inprocess import Command

FILES = {
    "github": ".github/workflows/reconcile.yaml",
    "gitlab": ".gitlab-ci.yml",
    "cron": "reconcile-from-cron",
}


@pytest.mark.parametrize("host", FILES)
def test_a_new_project_validates_and_fits_its_host(reconcile: Command, host: str) -> None:
    subprocess.run(["git", "init", "-q"], cwd=reconcile.root, check=True)
    if host != "cron":
        url = f"git@{host}.com:acme/infra.git"
        subprocess.run(["git", "remote", "add", "origin", url], cwd=reconcile.root, check=True)
    ended = reconcile("start --yes")
    assert "Valid: 2 resources in 2 files, in base, prod." in ended.out
    assert "reconcile state init --env prod" in ended.out
    assert "reconcile import --env prod APP " in ended.out
    assert (reconcile.root / FILES[host]).is_file()
    assert [name for other, name in FILES.items() if other != host and (reconcile.root / name).exists()] == []
    assert "app: shop-prod" in reconcile("build --env prod").out
    job = (reconcile.root / FILES[host]).read_text()
    assert "ENVIRONMENT" not in job
    assert "prod" in job


def test_a_second_start_changes_nothing(reconcile: Command) -> None:
    reconcile("start --yes")
    before = {path: path.read_bytes() for path in reconcile.root.rglob("*") if path.is_file()}
    assert "wrote" not in reconcile("start --yes").out
    assert {path: path.read_bytes() for path in reconcile.root.rglob("*") if path.is_file()} == before


def test_files_that_are_there_stay_and_what_they_lack_is_shown(reconcile: Command) -> None:
    (reconcile.root / ".gitignore").write_text("*.log\n")
    shown = reconcile("start --yes").out
    assert "kept   .gitignore\n       it lacks:\n.reconcile/\n" in shown
    assert (reconcile.root / ".gitignore").read_text() == "*.log\n"


@pytest.mark.parametrize("name", ["reconcile.yaml", "manifests/shop.yaml", ".gitignore"])
def test_a_folder_in_the_place_of_a_file_is_an_error_that_names_it(reconcile: Command, name: str) -> None:
    (reconcile.root / name).mkdir(parents=True)
    assert f"{name}: Is a directory" in reconcile("start --yes", code=1).err


def test_a_file_in_the_place_of_a_folder_is_an_error_that_names_it(reconcile: Command) -> None:
    (reconcile.root / "manifests").write_text("")
    assert "cannot write manifests/shop.yaml" in reconcile("start --yes", code=1).err


def test_off_a_terminal_it_asks_nothing(reconcile: Command) -> None:
    assert "pass --yes" in reconcile("start", code=64).err
    assert list(reconcile.root.iterdir()) == []


def test_on_a_terminal_it_asks(tmp_path: Path) -> None:
    answers = {
        b"Address of the platform": b"https://api.acme.example\n",
        b"App of the first": b"web\n",
        b"Name of the first": b"staging\n",
        b"CI service": b"gitlab\n",
    }
    code, shown = on_a_terminal(Project(tmp_path, {}), "start", answers=answers)
    assert (code, "Valid: 2 resources" in shown) == (0, True)
    assert "base_url: https://api.acme.example\n" in (tmp_path / "reconcile.yaml").read_text()
    assert (tmp_path / "overlays/staging/web.yaml").is_file()
    assert (tmp_path / ".gitlab-ci.yml").is_file()


def test_one_interrupt_ends_the_questions_and_nothing_is_written(tmp_path: Path) -> None:
    code, _ = on_a_terminal(Project(tmp_path, {}), "start", answers={b"Address of the platform": b"\x03"})
    assert (code, list(tmp_path.iterdir())) == (130, [])


def test_a_name_that_cannot_be_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    answers = {b"Address": b"\n", b"App of": b"Not a name\n", b"Name of": b"\n", b"CI service": b"\n"}
    code, shown = on_a_terminal(Project(tmp_path, {}), "start", answers=answers)
    assert (code, "at most 63" in shown) == (64, True)
    assert list(tmp_path.iterdir()) == []


def test_the_script_for_cron_can_be_run(reconcile: Command) -> None:
    reconcile("start --yes")
    script = reconcile.root / "reconcile-from-cron"
    assert script.stat().st_mode & 0o111
    assert subprocess.run(["sh", "-n", script], check=False).returncode == 0


def test_an_empty_folder_names_the_ways_in(reconcile: Command) -> None:
    told = reconcile("plan", code=1).err
    assert all(f"reconcile {verb}" in told for verb in ("start", "import", "demo"))


@pytest.mark.parametrize(("word", "instead"), [("init", "start"), ("status", "doctor")])
def test_words_of_other_tools_lead_on(reconcile: Command, word: str, instead: str) -> None:
    assert instead in reconcile(word, code=64).err
