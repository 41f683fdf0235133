"""A kind and a format are added without an edit: files are copied into a copy of the package, and used there.

`.ci/parts` runs it: `pytest tests/ci/try_extension.py`.
`extension/` holds these files at their places. docs/architecture.md says how to write others.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.test_layers import breaches

EXTENSION = Path(__file__).parent / "extension"
BUCKET = "manifests/buckets/bucket.yaml"


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository's package, tests and settings, with all files of the extension added."""
    root = tmp_path_factory.mktemp("extended")
    unwanted = shutil.ignore_patterns("__pycache__", "extension")
    for folder in ("reconciler", "tests"):
        shutil.copytree(ROOT / folder, root / folder, ignore=unwanted)
    shutil.copy(ROOT / "pyproject.toml", root / "pyproject.toml")
    (root / "reconcile.yaml").write_text("manifests: [manifests]\n")
    for file in (path for path in EXTENSION.rglob("*.*") if path.is_file()):
        target = root / file.relative_to(EXTENSION)
        assert not target.exists(), f"{target} would be an edit, not an addition"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    return root


def run(root: Path, module: str, *arguments: str, code: int = 0) -> str:
    """What `python -m MODULE` of the copy prints. Fails unless it ends with `code`."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("RECONCILE_", "PYTEST"))}
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=root,
        env={**env, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, f"{arguments}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def reconcile(root: Path, *arguments: str, code: int = 0) -> str:
    return run(root, "reconciler", *arguments, code=code)


def edit(root: Path, before: str, after: str) -> None:
    file = root / BUCKET
    assert before in file.read_text()
    file.write_text(file.read_text().replace(before, after))


def test_a_bucket_lives_on_the_sandbox_and_its_own_format_shows_it(copy: Path) -> None:
    apply = ("apply", "--sandbox", "--auto-approve")
    assert "no findings" in reconcile(copy, "plan", "--sandbox", "-o", "teamcity")
    assert "Bucket/shop/photos" in reconcile(copy, *apply)
    assert "Bucket/shop/photos" not in reconcile(copy, "drift", "--sandbox", "-o", "json")
    edit(copy, "versions: false", "versions: true")
    assert "versions: false -> true" in reconcile(copy, "plan", "--sandbox")
    reconcile(copy, *apply)

    edit(copy, "region: ams", "region: fra")
    refused = reconcile(copy, "plan", "--sandbox", "-o", "teamcity", code=1)
    assert "immutable-field: Bucket `photos` cannot change `region` from ams to fra" in refused
    edit(copy, "region: fra", "region: ams")

    known = reconcile(copy, "import", "--sandbox", "--app", "shop", "--out", "imported")
    assert "1 known already" in known
    assert "versions" in reconcile(copy, "explain", "Bucket")
    (copy / BUCKET).rename(copy / "bucket.yaml")
    assert "#delete: done" in reconcile(copy, *apply, "--approve-delete", "Bucket/shop/photos")


def test_the_cases_of_a_kind_are_found_and_play(copy: Path) -> None:
    run(copy, "pytest", "-n0", "-p", "no:cacheprovider", "tests/kinds/test_cases.py", "-k", "bucket")


def test_the_layers_hold_with_it(copy: Path) -> None:
    assert breaches(copy / "reconciler") == []
