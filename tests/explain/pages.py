"""The pages of the codes, and what the product prints in the situation that a page shows.

A page's ```yaml block is a manifest, `manifests.yaml`. Alone, it is validated. Where the code is about the
platform or the records, `situations/CODE.yaml` holds the rest, as a case file without `expect` (see
`tests/kinds/case.py`); a page without a manifest leaves that to it too. What is no case stands in `acts.py`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from reconciler.core.diagnostics import Diagnostic
from reconciler.explanations import read_explanation
from reconciler.manifests.load import load
from reconciler.reports.diagnostics import render
from tests.kinds.case import MANIFEST, play

SITUATIONS = Path(__file__).parent / "situations"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Page:
    """`blocks` are what stands between fences: by language, in their order."""

    code: str
    title: str
    text: str
    blocks: Sequence[tuple[str, str]]

    def block(self, language: str) -> str:
        """The only one of that language; "" when there is none."""
        found = [text for name, text in self.blocks if name == language]
        assert len(found) <= 1, f"{self.code}: two blocks of {language}"
        return found[0] if found else ""


def read_page(code: str) -> Page:
    found = read_explanation(code)
    return Page(code, found.title, found.text, _BLOCK.findall(found.text))


def situation(code: str) -> dict[str, Any] | None:
    file = SITUATIONS / f"{code}.yaml"
    return dict(yaml.safe_load(file.read_text(encoding="utf-8"))) if file.exists() else None


def diagnostics_of(page: Page, folder: Path) -> Sequence[Diagnostic]:
    """What the product says of the page's situation, played in the empty `folder`."""
    from tests.explain.acts import ACTS

    if page.code in ACTS:
        return ACTS[page.code](page.block("yaml"), folder)
    case = situation(page.code)
    if case is None:
        (folder / MANIFEST).write_text(page.block("yaml"), encoding="utf-8")
        return load([str(folder / MANIFEST)], root=folder).diagnostics
    case.pop("also", None)
    case.setdefault("manifests", page.block("yaml"))
    return play(case, folder).diagnostics


def also_told(code: str) -> set[str]:
    """Other codes that the situation leads to: `also` in its file."""
    return {*((situation(code) or {}).get("also", ()))}


def printed(diagnostics: Sequence[Diagnostic], folder: Path) -> str:
    def read_line(file: str, line: int) -> str | None:
        path = folder / file
        lines = re.split("\r\n|\r|\n", path.read_text("utf-8", errors="replace")) if path.is_file() else []
        return lines[line - 1] if line <= len(lines) else None

    return render(diagnostics, read_line)
