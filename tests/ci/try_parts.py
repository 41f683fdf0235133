"""`python -m tests.ci.try_parts FOLDER`: the steps of action.yml and of the Dockerfile, run in that folder.

They fetch from the package registry, as users' jobs do; nothing else of a runner or of an image is needed.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.docs import pages
from tests.docs.pages import ROOT

_OF_ROOT = "apt-get "  # the only step that changes the machine itself


def action() -> Any:
    return yaml.safe_load((ROOT / "action.yml").read_text())


def _run(script: str, folder: Path, **env: str) -> str:
    ours = ("RECONCILE_", "VIRTUAL_ENV", "UV_PROJECT")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env={**kept, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}"
    return done.stdout


def try_action(folder: Path) -> None:
    """Both steps, one after the other: installed with an extra, and a verb with a word that holds blanks."""
    install, run = action()["runs"]["steps"]
    path, output = folder / "path", folder / "output"
    temp = str(folder)
    _run(install["run"], folder, ACTION=str(ROOT), EXTRAS="objects", RUNNER_TEMP=temp, GITHUB_PATH=str(path))
    found = f"{path.read_text().strip()}:/usr/bin:/bin"
    arguments = f"{ROOT}/manifests/examples\n"
    printed = _run(
        run["run"], folder, VERB="validate", ARGUMENTS=arguments, GITHUB_OUTPUT=str(output), PATH=found
    )
    assert "Valid: 8 resources" in printed, printed
    assert output.read_text() == "exit-code=0\n"
    assert list((folder / "reconcile").rglob("obstore/__init__.py"))


def dockerfile() -> Iterator[tuple[str, str]]:
    """Its instructions, in order, without comments."""
    for line in (ROOT / "Dockerfile").read_text().splitlines():
        if line and not line.startswith("#"):
            word, _, rest = line.partition(" ")
            yield word, rest


def try_dockerfile(folder: Path) -> None:
    """What the image is made by, with the folders of the image below `folder`; then its entry point."""
    (folder / "src").mkdir(parents=True)
    subprocess.run([sys.executable, "-m", "venv", folder / "python"], check=True)
    env = {"PATH": f"{folder}/python/bin:{os.environ['PATH']}"}
    work, entry = folder, list[str]()
    for word, rest in dockerfile():
        rest = rest.replace("/src", f"{folder}/src").replace("/opt/", f"{folder}/opt/")
        if word == "RUN" and not rest.startswith(_OF_ROOT):
            _run(rest, work, **env)
        elif word == "WORKDIR":
            work = Path(rest) if rest.startswith(str(folder)) else folder
        elif word == "COPY" and not rest.startswith("--from"):
            *sources, target = rest.split()
            _copied([ROOT / each for each in sources], work / target)
        elif word == "ENTRYPOINT":
            entry = yaml.safe_load(rest)
    place = f"{folder}/opt/reconcile/bin"
    assert "Usage: reconcile" in _run(f"{place}/{entry[0]} --help", folder)
    package = next((folder / "opt/reconcile").rglob("reconciler/cli/main.py")).parent
    assert list(package.glob("__pycache__/main.*.pyc")), "no byte code was compiled"
    assert not list((folder / "opt/reconcile").rglob("pytest")), "more is installed than the image needs"


def _copied(sources: Sequence[Path], target: Path) -> None:
    """As COPY does: files into the folder, a folder's content into its own."""
    for source in sources:
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy(source, target)


def write_jobs(folder: Path) -> None:
    """The files of jobs and services that the documentation shows, and the component's, for their schemas."""
    folder.mkdir(parents=True)
    for number, item in enumerate(pages.items(ROOT / "docs/how-to/ci.md")):
        if isinstance(item, pages.Block) and "workflows/" in item.file:
            (folder / f"{number}.github-workflows.yml").write_text(item.text)
        if isinstance(item, pages.Block) and item.file == ".gitlab-ci.yml":
            (folder / f"{number}.gitlab-ci.yml").write_text(item.text)
    for item in pages.items(ROOT / "docs/how-to/controller.md"):
        if item.file == "compose.yaml":
            (folder / item.file).write_text(item.text)
    component = (ROOT / "templates/reconcile/template.yml").read_text().partition("\n---\n")[2]
    (folder / "component.gitlab-ci.yml").write_text(component)


if __name__ == "__main__":
    root = Path(sys.argv[1])
    write_jobs(root / "jobs")
    for name, work in (("action", try_action), ("image", try_dockerfile)):
        (root / name).mkdir(parents=True)
        work(root / name)
