"""Processes made by fork from one that has everything imported: they start in a hundredth of the time."""

import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from importlib import import_module
from pathlib import Path

import reconciler

_PACKAGE = Path(reconciler.__file__).parent
_EXAMPLES = Path(__file__).parents[1] / "manifests/examples"
_LIBRARIES = ("httpx", "anyio._backends._asyncio")
_FIRST = (
    ("plan",),
    ("apply", "--auto-approve"),
    ("apply", "--auto-approve", "--output", "json"),
    ("drift",),
    ("state", "list"),
)
_MOST_DESCRIPTORS = 1024


def import_everything() -> None:
    """Every process that is forked from this one has it all, and all of them run the same source.

    It also has what the first run of a verb makes for the next ones: schemas, decoders, patterns.
    """
    files = (file.relative_to(_PACKAGE.parent).with_suffix("") for file in sorted(_PACKAGE.rglob("*.py")))
    names = [".".join(file.parts).removesuffix(".__init__") for file in files]
    for name in (*_LIBRARIES, *names):
        if not name.endswith("__main__"):
            with suppress(ModuleNotFoundError):  # of an extra that is not installed
                import_module(name)
    run, manifests = import_module("reconciler.cli.main").run, str(_EXAMPLES)
    with (
        tempfile.TemporaryDirectory() as folder,
        chdir(folder),
        Path(os.devnull).open("w", encoding="utf-8") as nowhere,
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
    ):
        for verb in _FIRST:
            run([*verb, *([manifests] if verb[0] != "state" else []), "--sandbox"])


def become(root: Path, env: Mapping[str, str], stdin: int, out: int, err: int, *, keep: int = 0) -> None:
    """In the child: streams, directory, environment and signals of a process that was just started."""
    for number, descriptor in enumerate((stdin, out, err)):
        os.dup2(descriptor, number)
    os.closerange(3, keep)
    os.closerange(max(keep, 2) + 1, _MOST_DESCRIPTORS)
    os.chdir(root)
    os.environ.clear()
    os.environ.update(env)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def apart(work: Callable[[], None]) -> None:
    """Run `work` in a process of its own: what an object store's driver starts survives no fork."""
    pid = os.fork()
    if not pid:
        finish(work)
    _, status = os.waitpid(pid, 0)
    assert status == 0, "what it raised stands on stderr"


def finish(work: Callable[[], None]) -> None:
    """Run `work` and end with its exit code, as the interpreter would."""
    code = 0
    try:
        work()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
