"""Transcripts of an agent that has a shell and the project's token: nothing is sent that nobody signed.

    python -m tests.reliability.agents --transcripts 1000

Each transcript is a random sequence of what an agent may try: wrong help followed, flags tried, settings,
rules and signers edited, keys of its own, verbs for people. All are about one project and its state, on one
platform, whose log says which calls changed anything. Not tried is what docs/security.md says is not held: to
unset the variable, to make a project or a state of its own, and to use the token without this program.
"""

import argparse
import contextlib
import io
import os
import random
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import click

from reconciler.cli.main import run
from reconciler.demo import shop

MARK = "CLAUDECODE"
AGENTS = f"agents: {{variables: [{MARK}]}}\n"
_STEPS = (4, 12)

LINES = (
    *(
        "plan",
        "drift",
        "doctor",
        "plan --out own.plan",
        "plan --rehearse --out own.plan",
        "history",
        "validate",
    ),
    *("apply --auto-approve", "apply --plan own.plan --auto-approve", "apply --auto-approve --env base"),
    "apply --plan own.plan --auto-approve --approval own.plan.agent@example.com.approval",
    "apply --auto-approve --target Volume/shop/data",
    "apply --auto-approve --approve-delete Volume/shop/data",
    "apply --auto-approve --approve-create PostgresCluster/orders@{word}",
    "apply --auto-approve --base HEAD",
    "approve own.plan --key key --principal agent@example.com --auto-approve --reason hurry",
    *("state init", "state init --new", "state unlock shop --force", "state forget Volume/shop/data"),
    "state mv Volume/shop/data Volume/shop/files",
    *("state forget PostgresCluster/orders", "state restore --auto-approve", "state backup kept.db"),
    *(
        "state migrate sqlite:other.db",
        "state set-platform http://127.0.0.1:1",
        "state ingest outcomes.spool",
    ),
    *("resolve Volume/shop/data --restarted", "resolve Volume/shop/data --not-created --force"),
    *("drift --accept", "import --out imported", "undo {word}"),
)


def _settings(text: str) -> Callable[[Path], None]:
    """An edit that ends reconcile.yaml with `text` instead of the section `agents`."""

    def edit(folder: Path) -> None:
        path = folder / "reconcile.yaml"
        path.write_text(path.read_text().partition("agents:")[0].partition("approvals:")[0] + text)

    return edit


def _manifest(old: str, new: str) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        for path in folder.glob("manifests/*.yaml"):
            path.write_text(path.read_text().replace(old, new))

    return edit


def _signers(folder: Path) -> None:
    """A key of its own becomes the only signer's."""
    key = folder / "key"
    if not key.exists():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    public = key.with_suffix(".pub").read_text().split()[:2]
    (folder / "allowed_signers").write_text(f"agent@example.com {' '.join(public)}\n")


def _gone(folder: Path) -> None:
    for path in folder.glob("manifests/*.yaml"):
        path.unlink()


EDITS: tuple[Callable[[Path], None], ...] = (
    _settings(""),
    _settings("agents: {variables: []}\n"),
    _settings("agents: {variables: [OTHER]}\n"),
    _settings("approvals: {rules: []}\n"),
    _settings("approvals: {signers: key.pub}\n"),
    _signers,
    _manifest("size_gb: 10", "size_gb: 20"),
    _manifest("snapshot_retention: 14", "snapshot_retention: 1"),
    _manifest("name: data", "name: files"),
    _manifest("snapshot_retention: 14\n", "snapshot_retention: 14\nlifecycle: {deletion: delete}\n"),
    _gone,
)


class Transcript:
    """One agent's session in `folder`, by a seed. `lines`: what it did."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder, self._random, self.lines = folder, random.Random(seed), list[str]()

    def play(self) -> None:
        for _ in range(self._random.randint(*_STEPS)):
            if self._random.random() < 0.4:
                edit = self._random.choice(EDITS)
                edit(self._folder)
                self.lines.append(f"edits: {EDITS.index(edit)}")
            else:
                line = self._random.choice(LINES).replace("{word}", "12345678")
                self.lines.append(f"{line}: exit {_typed(line)}")


def _typed(line: str) -> int:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return run(shlex.split(line))


@contextmanager
def project(marked: bool = True) -> Iterator[Path]:
    """A demo that a person has applied with the section `agents`; then the agent's shell begins."""
    here, before = Path.cwd(), dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="agents-") as home:
        folder = Path(home) / "shop"
        folder.mkdir()
        os.environ["HOME"] = home
        os.environ.pop(MARK, None)
        os.chdir(folder)
        try:
            _typed("demo")
            with Path("reconcile.yaml").open("a") as settings:
                settings.write(AGENTS)
            assert _typed("apply --auto-approve") == 0
            if marked:
                os.environ[MARK] = "1"
            yield folder
        finally:
            shop.stop(folder)
            os.chdir(here)
            os.environ.clear()
            os.environ.update(before)


def changes(folder: Path) -> list[str]:
    """The calls that changed anything on the platform, oldest first."""

    async def read() -> Any:
        async with shop.platform(folder) as ask:
            return await ask("GET", "_sandbox/log", None)

    return [f"{entry['method']} {entry['path']}" for entry in anyio.run(read) if entry["method"] != "GET"]


def play(transcripts: int, first: int, *, marked: bool = True) -> str:
    """Play that many; returns the first one that changed anything, or ""."""
    with project(marked) as folder:
        files = {path: path.read_bytes() for path in folder.rglob("*.yaml")}
        before = changes(folder)
        for seed in range(first, first + transcripts):
            transcript = Transcript(folder, seed)
            transcript.play()
            if (after := changes(folder)) != before:
                told = "\n  ".join(transcript.lines)
                return f"seed {seed} changed the platform: {after[len(before) :]}\n  {told}"
            for path in {*folder.glob("manifests/*"), *folder.glob("*.plan*"), folder / "allowed_signers"}:
                path.unlink(missing_ok=True)
            for path, data in files.items():
                path.write_bytes(data)
            if seed % 100 == 99:
                click.echo(f"{seed - first + 1} of {transcripts} transcripts")
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.agents")
    parser.add_argument("--transcripts", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    wanted = parser.parse_args()
    if problem := play(wanted.transcripts, wanted.first):
        click.echo(problem)
        return 1
    click.echo(f"{wanted.transcripts} transcripts: no call changed anything")
    return 0


if __name__ == "__main__":
    sys.exit(main())
