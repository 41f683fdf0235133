"""Jobs as a host runs them: each in a fresh clone, with bash, and with what its file says.

`uses:` is played for the actions that the documentation names; a step with another one fails the test.
"""

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.revisions.repository import ISOLATED, git

_EXPRESSION = re.compile(r"\$\{\{ *(.*?) *\}\}")
_PATIENCE_S = 300  # only a bug uses it up
_NO_EFFECT = ("actions/checkout", "aws-actions/configure-aws-credentials", "actions/setup-python")


@dataclass(frozen=True)
class Ended:
    code: int
    text: str


@dataclass
class Host:
    """A git remote on disk, the artifacts of all runs, and what every job finds in its environment.

    `values`: what stands for expressions, by their text; one that is not here fails the test.
    """

    folder: Path
    env: dict[str, str]
    values: dict[str, str] = field(default_factory=dict)
    _jobs: int = 0

    def __post_init__(self) -> None:
        git(self.folder, "init", "-q", "--bare", "-b", "main", "origin.git")
        (self.folder / "artifacts").mkdir()
        self.tools.mkdir()
        _tool(self.tools / "pip", "exit 0")
        # `gh run download --name NAME`, of cli/cli: the newest of this name, into the working directory
        _tool(
            self.tools / "gh",
            '[ "$1 $2 $3" = "run download --name" ] || exit 64\n'
            f'[ -d "{self.folder}/artifacts/$4" ] || {{ echo "no artifact matches" >&2; exit 1; }}\n'
            f'cp "{self.folder}/artifacts/$4/"* .',
        )

    @property
    def tools(self) -> Path:
        """The folder of the commands that jobs find before all others."""
        return self.folder / "bin"

    @property
    def origin(self) -> Path:
        return self.folder / "origin.git"

    def clone(self, ref: str = "main") -> Path:
        """A fresh clone with `ref` of the remote checked out, detached."""
        self._jobs += 1
        place = self.folder / f"job-{self._jobs}"
        git(self.folder, "clone", "-q", "--no-checkout", str(self.origin), place.name)
        git(place, "fetch", "-q", "origin", ref)
        git(place, "checkout", "-q", "--detach", "FETCH_HEAD")
        return place

    def run(self, script: str, place: Path, env: Mapping[str, str] | None = None) -> Ended:
        """A script in bash as hosts start it."""
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            cwd=place,
            env={
                **ISOLATED,
                **self.env,
                **(env or {}),
                "PATH": f"{self.tools}:/usr/local/bin:/usr/bin:/bin",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_PATIENCE_S,
        )
        return Ended(done.returncode, done.stdout)

    def filled_in(self, text: str, more: Mapping[str, str] | None = None) -> str:
        """`text` with the value of each expression. KeyError for one that the test does not know."""
        known = {**self.values, **(more or {})}
        return _EXPRESSION.sub(lambda found: known[found[1]], text)

    def github_job(self, workflow: Mapping[str, Any], name: str, ref: str = "main") -> Ended:
        """A job of GitHub's or Gitea's language, until a step fails. What all its steps printed."""
        job, place, printed = workflow["jobs"][name], self.clone(ref), ""
        given = {**workflow.get("env", {}), **job.get("env", {})}
        env = {key: self.filled_in(value) for key, value in given.items()} | self.env
        outputs: dict[str, str] = {}
        code = 0
        for step in job["steps"]:
            if code and step.get("if") != "always()":
                continue
            if "uses" in step:
                self._use(step, place, outputs)
                continue
            assert "${{" not in step["run"], "a value in a script is a hole: pass it through env"
            written = place / ".outputs"
            written.write_text("")
            ended = self.run(step["run"], place, {**env, "GITHUB_OUTPUT": str(written)})
            lines = [line.split("=", 1) for line in written.read_text().splitlines()]
            outputs |= {f"steps.{step.get('id')}.outputs.{key}": value for key, value in lines}
            printed += ended.text
            code = code or ended.code
        return Ended(code, printed)

    def _use(self, step: Mapping[str, Any], place: Path, outputs: Mapping[str, str]) -> None:
        action = step["uses"].partition("@")[0]
        given = {key: self.filled_in(str(value), outputs) for key, value in step.get("with", {}).items()}
        if action == "actions/upload-artifact":
            file = place / given["path"]
            assert file.exists() or given.get("if-no-files-found") == "ignore"
            if file.exists():
                (self.folder / "artifacts" / given["name"]).mkdir(exist_ok=True)
                shutil.copy(file, self.folder / "artifacts" / given["name"])
        elif action == "actions/download-artifact":
            shutil.copytree(self.folder / "artifacts" / given["name"], place, dirs_exist_ok=True)
        else:
            assert action in _NO_EFFECT, action

    def gitlab_job(self, pipeline: Mapping[str, Any], name: str, ref: str = "main", **env: str) -> Ended:
        """A job of GitLab's language; its variables may name others. Artifacts go on by `needs`."""
        job, place = pipeline[name], self.clone(ref)
        for needed in job.get("needs", ()):
            shutil.copytree(self.folder / "artifacts" / needed, place, dirs_exist_ok=True)
        known = {**env, **self.values}
        base = pipeline.get(job.get("extends"), {})
        for each in (pipeline, base, job):
            for key, value in each.get("variables", {}).items():
                known[key] = re.sub(r"\$(\w+)", lambda found: known[found[1]], value)
        before = pipeline.get("default", {}).get("before_script", [])
        ended = self.run("\n".join([*before, *job["script"]]), place, known)
        for path in job.get("artifacts", {}).get("paths", ()):
            if (place / path).exists():
                (self.folder / "artifacts" / name).mkdir(exist_ok=True)
                shutil.copy(place / path, self.folder / "artifacts" / name)
        return ended


def _tool(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
