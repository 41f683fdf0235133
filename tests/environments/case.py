"""A project in one file: `=== NAME` begins a file of it, `=== report` and `=== build` what comes of it."""

import re
from dataclasses import dataclass
from pathlib import Path

from reconciler.manifests.load import Loaded, load
from reconciler.manifests.writing.write import build
from reconciler.reports.diagnostics import render

_HEADER = re.compile(r"^=== (\S+)\n", re.MULTILINE)
EXPECTED = ("report", "build")


@dataclass(frozen=True, slots=True)
class Case:
    """`files` by name, and the `report` and `build` of environment `prod`."""

    files: dict[str, str]
    report: str
    build: str


def read_case(path: Path) -> Case:
    _, *parts = _HEADER.split(path.read_text(encoding="utf-8"))
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    files = {name: text for name, text in sections.items() if name not in EXPECTED}
    return Case(files, sections.get("report", ""), sections.get("build", ""))


def write_project(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return root


def load_prod(root: Path) -> Loaded:
    overlay = str(root / "overlays/prod")
    return load([str(root / "manifests")], root=root, overlay=overlay, keep=True)


def report_of(root: Path, loaded: Loaded) -> str:
    def read_line(file: str, number: int) -> str | None:
        return (root / file).read_text(encoding="utf-8").splitlines()[number - 1]

    return render(loaded.diagnostics, read_line)


def build_of(loaded: Loaded) -> str:
    return build(loaded.effective)
