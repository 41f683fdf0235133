"""Byte code: without it, each process compiles all that it imports, and costs twice as much."""

import compileall
import sysconfig
from pathlib import Path

from bench.processes import CouldNotRun
from bench.stage import REPOSITORY


def compile_all(source: Path = REPOSITORY) -> str:
    """Compile the reconciler in the folder `source` and all installed packages; a line that says so."""
    if not compileall.compile_dir(source / "reconciler", quiet=1):
        raise CouldNotRun(f"{source / 'reconciler'} cannot be compiled")
    # Packages carry files for other versions of Python, as templates or tests; those say nothing.
    compileall.compile_dir(sysconfig.get_path("purelib"), quiet=2, workers=0)
    return f"compiled to byte code: {source / 'reconciler'} and all packages"
