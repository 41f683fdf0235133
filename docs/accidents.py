"""Makes docs/accidents.svg, the README's picture, from a real run: `python docs/accidents.py`."""

import io
import re
import subprocess
import sys
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

NAMES = ("lost-state", "code-freeze", "manifests-gone", "answer-lost")
PICTURE = Path(__file__).with_name("accidents.svg")
_FONTS = re.compile(r"@font-face \{\{.*?\}\}\s*", re.DOTALL)  # from another host: the picture asks nobody
_WIDTH = 116


def draw(shown: str) -> str:
    """The SVG of what `reconcile demo accident …` printed."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO())
    for line in shown.rstrip().splitlines():
        text = Text(line)
        text.highlight_regex(r"^\S+:", "bold")
        text.highlight_regex(r"^  HELD:", "bold green")
        text.highlight_regex(r"^  \$ .*", "cyan")
        text.highlight_regex(r"^  https://.*", "dim")
        console.print(text)
    svg = console.export_svg(
        title="reconcile demo accident", code_format=_FONTS.sub("", CONSOLE_SVG_FORMAT), unique_id="accidents"
    )
    return re.sub(r"[ \t]+\n", "\n", svg)


def main() -> int:
    command = [sys.executable, "-m", "reconciler", "demo", "accident", *NAMES]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own program
    if ran.returncode:
        sys.stderr.write(ran.stdout + ran.stderr)
        return 1
    PICTURE.write_text(draw(ran.stdout), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
