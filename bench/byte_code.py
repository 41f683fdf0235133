"""Byte code: without it, each process compiles all that it imports, and costs twice as much."""

import compileall
import sysconfig
from pathlib import Path

from bench.processes import CouldNotRun
from bench.stage import REPOSITORY


def compile_all() -> str:
    """Compile this reconciler and all installed packages; a line that says so."""
    compile_source(REPOSITORY)
    # Packages carry files for other versions of Python, as templates or tests; those say nothing.
    compileall.compile_dir(sysconfig.get_path("purelib"), quiet=2, workers=0)
    return f"compiled to byte code: {REPOSITORY / 'reconciler'} and the installed packages"


def compile_source(folder: Path) -> None:
    """Compile the reconciler in `folder`."""
    if not compileall.compile_dir(folder / "reconciler", quiet=1):
        raise CouldNotRun(f"{folder / 'reconciler'} cannot be compiled")
