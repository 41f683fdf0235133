"""How large the product is: `python -m bench.mass [FOLDER]` prints lines, files, words and options.

All lines count: code, docstrings, comments, blank ones. "Words" are lines of docstrings and comments,
"imports" lines of import statements, both in percent of all lines.
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent


class Mass(NamedTuple):
    """What a set of Python files amounts to, in lines."""

    files: int = 0
    lines: int = 0
    words: int = 0
    imports: int = 0

    def __add__(self, other: object) -> "Mass":
        assert isinstance(other, Mass)
        return Mass(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def row(self, name: str) -> str:
        share = 100 / (self.lines or 1)
        words, imports = f"{self.words * share:.1f} %", f"{self.imports * share:.1f} %"
        return f"{name:<24}{self.files:>6}{self.lines:>9,}{words:>9}{imports:>9}"


def mass_of(file: Path) -> Mass:
    text = file.read_text(encoding="utf-8")
    tree = ast.parse(text)
    words = set(_docstring_lines(tree)) | set(_comment_lines(text))
    imports = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    return Mass(1, len(text.splitlines()), len(words), len(imports))


def _docstring_lines(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if ast.get_docstring(node, clean=False) is not None and first is not None:
                yield from range(first.lineno, (first.end_lineno or first.lineno) + 1)


def _comment_lines(text: str) -> Iterator[int]:
    """Lines that are a comment and nothing else."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and token.line.lstrip().startswith("#"):
            yield token.start[0]


def packages(folder: Path) -> dict[str, Mass]:
    """By package of `folder`, its mass; the files that are in none are "." together."""
    found: dict[str, Mass] = {}
    for file in sorted(folder.rglob("*.py")):
        parts = file.relative_to(folder).parts
        name = parts[0] if len(parts) > 1 else "."
        found[name] = found.get(name, Mass()) + mass_of(file)
    return found


def options() -> tuple[int, int, int]:
    """Leaf commands, different flags, and uses of flags. Hidden ones do not count."""
    import click

    from reconciler.cli.main import cli

    commands, flags = 0, Counter[str]()

    def walk(command: click.Command, context: click.Context) -> None:
        nonlocal commands
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                child = command.get_command(context, name)
                if child is not None and not child.hidden:
                    walk(child, click.Context(child, context, name))
        else:
            commands += 1
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                flags[max(parameter.opts, key=len)] += 1

    walk(cli, click.Context(cli))
    return commands, len(flags), flags.total()


def show(folder: Path) -> None:
    print(f"{folder.name:<24}{'files':>6}{'lines':>9}{'words':>9}{'imports':>9}")
    found = packages(folder)
    for name, mass in sorted(found.items(), key=lambda item: -item[1].lines):
        print(mass.row(name))
    print(sum(found.values(), Mass()).row("all"))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        show(Path(sys.argv[1]))
    else:
        show(ROOT / "reconciler")
        tests = sum(packages(ROOT / "tests").values(), Mass())
        print(tests.row("tests"))
        print("{} commands, {} flags, {} uses of flags".format(*options()))
