"""The `reconcile` command in this process: as quick as a function call."""

import os
import shlex
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from reconciler.cli.main import run


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    out: str
    err: str


@dataclass(slots=True)
class Command:
    """Runs verbs in the project `root`."""

    root: Path
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]
    variables: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in [name for name in os.environ if name.startswith(("RECONCILE_", "GIT_"))]:
            self.monkeypatch.delenv(name)

    def __call__(self, line: str, *, code: int | None = 0, cwd: str = ".") -> Ended:
        """Run `reconcile LINE`; `code` is the exit code that it must have (None: any)."""
        self.monkeypatch.chdir(self.root / cwd)
        for name, value in self.variables.items():
            self.monkeypatch.setenv(name, value)
        self.capsys.readouterr()
        ended = run(shlex.split(line))
        out, err = self.capsys.readouterr()
        assert code is None or ended == code, f"exit {ended}, not {code}\n{out}\n{err}"
        return Ended(ended, out, err)

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path


def volume(name: str = "data", app: str = "shop", size_gb: int = 10, more: str = "") -> str:
    return (
        f"---\napiVersion: reconciler/v1\nkind: Volume\nmetadata: {{name: {name}, app: {app}}}\n"
        f"spec: {{region: ams, size_gb: {size_gb}{more}}}\n"
    )


def secret(name: str, source: str, app: str = "shop") -> str:
    return (
        f"---\napiVersion: reconciler/v1\nkind: Secret\nmetadata: {{name: {name}, app: {app}}}\n"
        f"spec: {{value_from: {{{source}}}}}\n"
    )
