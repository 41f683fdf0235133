"""Run verbs in this process, on a project that holds one case."""

import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from reconciler.cli import main
from tests.manifests.broken.making import MADE, SETTINGS, VOLUME, nobody, vanishing
from tests.manifests.every_kind import with_kinds, without_kinds

HERE = Path(__file__).parent
GOLDEN = HERE / "golden.txt"
COMMITTED = sorted(path.name for path in HERE.glob("*.yaml"))
CASES = (*COMMITTED, *MADE, *SETTINGS)

_HEADING = "## "


class Ran(NamedTuple):
    code: int
    out: str
    err: str


@contextmanager
def project(case: str) -> Iterator[Path]:
    """A folder whose manifests hold `case` and nothing else.

    Not one of pytest's: those are closed to others, and a file without permission is read as somebody else.
    """
    root = Path(tempfile.mkdtemp(prefix="broken-")).resolve()
    try:
        root.chmod(0o777)
        (root / "reconcile.yaml").write_bytes(SETTINGS.get(case, b"manifests: [manifests]\n"))
        folder = root / "manifests"
        folder.mkdir()
        if case in MADE:
            MADE[case](folder)
        elif case in SETTINGS:
            (folder / "good.yaml").write_text(VOLUME)
        else:
            shutil.copy(HERE / case, folder / case)
        yield root
    finally:
        locked = root / "manifests" / "locked"
        if locked.exists():
            locked.chmod(0o700)
        shutil.rmtree(root)


def run(case: str, root: Path, *arguments: str) -> Ran:
    """Whatever is not a known failure is raised; output that no terminal could take, too."""
    if case.endswith("without-permission"):
        with project("a-link-to-nothing") as other:
            run(
                "a-link-to-nothing", other, *arguments
            )  # what is imported late, others may not be able to read
    out, err = io.StringIO(), io.StringIO()
    settings = {name: "" for name in os.environ if name.startswith("RECONCILE_")}
    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, settings))
        stack.enter_context(chdir(root))
        stack.enter_context(redirect_stdout(out))
        stack.enter_context(redirect_stderr(err))
        if case.endswith("without-permission"):
            stack.enter_context(nobody())
        if case == "a-file-that-vanishes":
            stack.enter_context(vanishing())
        code = main.run([*arguments])
    for text in (out.getvalue(), err.getvalue()):
        text.encode()
    return Ran(code, out.getvalue(), err.getvalue().replace(f"{root}/", ""))


def report(case: str) -> str:
    with project(case) as root:
        return run(case, root, "validate").err


def write_golden() -> None:
    with GOLDEN.open("w", encoding="utf-8", newline="\n") as file:
        for case in CASES:
            file.write(f"{_HEADING}{case}\n{without_kinds(report(case))}\n")


def read_golden() -> dict[str, str]:
    """What is said of each case."""
    found: dict[str, str] = {}
    for part in f"\n{with_kinds(GOLDEN.read_text(encoding='utf-8'))}".split(f"\n{_HEADING}")[1:]:
        case, _, text = part.partition("\n")
        found[case] = text.rstrip("\n") + "\n"
    return found
