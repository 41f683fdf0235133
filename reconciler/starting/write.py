"""Writes a new project into a folder. A file that is there stays as it is."""

import os
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from reconciler.core.context import program_version
from reconciler.core.errors import ReconcilerError
from reconciler.manifests.files import SETTINGS_FILE
from reconciler.project.files import read_file, write_new

_HOSTS = {
    "github": ".github/workflows/reconcile.yaml",
    "gitlab": ".gitlab-ci.yml",
    "cron": "reconcile-from-cron",
}
_SETTINGS = """platform:
  base_url: {base_url}
  token_from: {{env: RECONCILE_TOKEN}}
# The state: for a team, in PostgreSQL or an object store, such as s3://BUCKET/NAME.
# state: {{url: sqlite:.reconcile/state.db}}
# The runs of agents: they send only what people have signed (`reconcile explain agents`).
agents: {{variables: [CLAUDECODE, RECONCILE_AGENT]}}
"""
_MANIFEST = """# The same in all environments. `reconcile new KIND` prints a commented manifest to copy from.
apiVersion: reconciler/v1
kind: Volume
metadata: {{name: data, app: {app}}}
spec:
  region: ams
  size_gb: 1
lifecycle: {{deletion: retain}} # it stays on the platform when this file goes
"""
_OVERLAY = """# What differs in {environment}: patches by address.
"*/{app}/*":
  metadata: {{app: {app}-{environment}}}
Volume/{app}/data:
  spec: {{size_gb: 10}}
"""
_OWNERS = """# Who reviews what the platform is to look like, and who may approve it.
/manifests/ @OWNERS
/overlays/ @OWNERS
/reconcile.yaml @OWNERS
"""


class Answers(NamedTuple):
    """A person's answers about the new project. `app`: of the first manifest."""

    base_url: str = "https://api.example.com"
    app: str = "shop"
    environment: str = "prod"


class Written(NamedTuple):
    """A file of the project. `kept`: it was there, and is as it was; `lacks`: the lines that it lacks."""

    name: str
    kept: bool = False
    lacks: str = ""


def find_host(folder: Path) -> str:
    """The CI service of the repository in `folder`, by its remotes and files: github, gitlab, or cron."""
    config = folder / ".git/config"
    remotes = config.read_text(encoding="utf-8", errors="replace") if config.is_file() else ""
    for host, name in _HOSTS.items():
        if host in remotes or (folder / name.partition("/")[0]).exists():
            return host
    return "cron"


def write_project(folder: Path, answers: Answers, host: str) -> Iterator[Written]:
    """Write the files of a new project for the CI service `host`; those that are there stay as they are."""
    template = files("reconciler.starting") / "files" / (host if host == "cron" else f"{host}.yaml")
    job = (
        template.read_text("utf-8")
        .replace("ENVIRONMENT", answers.environment)
        .replace("VERSION", program_version())
    )
    owners = "CODEOWNERS" if host == "cron" else f".{host}/CODEOWNERS"
    said = answers._asdict()
    texts = {
        SETTINGS_FILE: _SETTINGS.format_map(said),
        f"manifests/{answers.app}.yaml": _MANIFEST.format_map(said),
        f"overlays/{answers.environment}/{answers.app}.yaml": _OVERLAY.format_map(said),
        _HOSTS[host]: job,
        owners: _OWNERS,
        ".gitignore": ".reconcile/\n",
    }
    for name, text in texts.items():
        yield _write(folder, name, text)


def _write(folder: Path, name: str, text: str) -> Written:
    path = folder / name
    if os.path.lexists(path):
        there = read_file(path).decode(errors="replace").splitlines()
        lines = text.splitlines() if name.endswith(("CODEOWNERS", ".gitignore")) else ()
        return Written(name, kept=True, lacks="\n".join(line for line in lines if line not in there))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as failure:
        raise ReconcilerError(f"cannot write {name}: {failure.strerror}") from failure
    write_new(path, text.encode(), mode=0o755 if name == _HOSTS["cron"] else None)
    return Written(name)
