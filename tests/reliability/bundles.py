"""A small bundle with an approval, and every byte of it flipped: each is refused, and named by its part.

python -m tests.reliability.bundles
"""

import dataclasses
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import click
from msgspec.structs import replace

from reconciler.evidence.archive import ARCHIVE, FIRST_LINE, Damaged, digest
from reconciler.evidence.bundle import bundle
from reconciler.evidence.verify import Verified, verify
from reconciler.planning.declared import Desired
from reconciler.planning.digest import plan_digest
from reconciler.planning.saved import SavedPlan
from reconciler.project.plan import make_plan
from reconciler.project.run import run_plan
from reconciler.state import backend_of
from reconciler.state.chain import row_hash, state_head
from reconciler.state.contents import Row, StateDump
from reconciler.state.store import Event, State
from tests.cli.harness import secret
from tests.execution.stage import Stage, loaded, volume

CANARY = "hunter2-canary"
ENV = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}


@dataclasses.dataclass(frozen=True)
class Made:
    """One run of a saved plan, approved by ana, and its bundle. `head`: what its apply would print."""

    contents: StateDump
    state: State
    saved: SavedPlan
    run: str
    head: str
    data: bytes
    signers: bytes


def make(root: Path, name: str, **statement: Any) -> Made:
    stage = Stage(root)
    stage.env["PASSWORD"] = CANARY
    manifests = volume(name) + secret("shop", "PASSWORD", "env: PASSWORD")

    async def work() -> tuple[StateDump, State, SavedPlan]:
        desired = Desired(loaded(stage, manifests))
        plan = await make_plan(stage.project(), desired)
        await run_plan(stage.project(), plan, approved_deletes=(), resources=desired.by_address)
        contents, state = await backend_of(stage.store).export(), await stage.store.load()
        return contents, state, SavedPlan(plan)

    contents, state, saved = anyio.run(work)
    key = _key(root)
    said = {
        "plan": plan_digest(saved.plan),
        "rehearsal": "",
        "environment": "base",
        "lineage": contents.lineage,
        "principal": "ana@example.com",
        "reason": "it is needed",
        "at": "2025-12-31T12:00:00Z",
        "expires": "2026-01-02T12:00:00Z",
        "id": "0123456789abcdef" * 2,
        **statement,
    }
    approval = _approval(root, key, said)
    contents = _with_approvals(contents, [approval])
    state = dataclasses.replace(state, heads=contents.hashes)
    (run,) = {row.columns[0] for row in contents.rows if row.columns[1] == Event.RUN_STARTED}
    head = state_head(contents.lineage, contents.hashes)
    data = bundle(contents, run, head=head, saved=saved)
    public = (root / "key.pub").read_bytes().split()
    return Made(contents, state, saved, run, head, data, b"ana@example.com " + b" ".join(public[:2]) + b"\n")


def _key(root: Path) -> Path:
    file = root / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file], check=True)
    return file


def _approval(root: Path, key: Path, said: Mapping[str, Any]) -> Mapping[str, str]:
    statement = json.dumps({"format": "reconcile-approval-1", **said}, indent=1) + "\n"
    command = ["ssh-keygen", "-Y", "sign", "-f", str(key), "-n", "reconcile-plan"]
    signature = subprocess.run(command, input=statement.encode(), capture_output=True, check=True).stdout
    id = f"approval-{digest(statement.encode())}"
    return {"id": id, "statement": statement, "signature": signature.decode()}


def _with_approvals(contents: StateDump, approvals: Sequence[Mapping[str, str]]) -> StateDump:
    """As a run that used them would have journaled it."""
    rows, ends = list[Row](), dict[str, str]()
    for row in contents.rows:
        *columns, data = row.columns
        if row.columns[1] == Event.RUN_STARTED:
            data = json.dumps({**json.loads(data), "approvals": list(approvals)}, separators=(",", ":"))
        previous = ends.get(row.scope, contents.lineage)
        ends[row.scope] = row_hash(previous, row.seq, columns, data.encode(), row.scope)
        rows.append(replace(row, columns=(*columns, data), hash=ends[row.scope]))
    heads = {scope: replace(head, hash=ends.get(scope, head.hash)) for scope, head in contents.heads.items()}
    return dataclasses.replace(contents, rows=tuple(rows), heads=heads)


def verified(data: bytes, **given: Any) -> Verified:
    return verify(data, env=ENV, **given)


def refused(data: bytes, **given: Any) -> str:
    """The part that is named. Raises AssertionError where nothing is wrong."""
    try:
        verified(data, **given)
    except Damaged as damaged:
        return damaged.part
    raise AssertionError("it was not refused")


def places(data: bytes) -> Iterator[tuple[int, int, str]]:
    """From where to where each part stands in the file; all between them is the archive's own."""
    line = data.index(b"\n") + 1
    yield 0, line, FIRST_LINE
    at = line
    while data[at : at + 512].strip(b"\0"):
        name = data[at : at + 100].rstrip(b"\0").decode()
        size = int(data[at + 124 : at + 135], 8)
        yield at + 512, at + 512 + size, name
        at += 512 + size + -size % 512


def misnamed(data: bytes, step: int, bit: int) -> list[tuple[int, str, str]]:
    """Of each byte that is flipped: where the part that is named is not the one that it is in."""
    known, wrong = list(places(data)), []
    for at in range(0, len(data), step):
        part = next((name for start, end, name in known if start <= at < end), ARCHIVE)
        changed = bytearray(data)
        changed[at] ^= bit
        named = refused(bytes(changed))
        if named != part:
            wrong.append((at, part, named))
    return wrong


@click.command()
def command() -> None:
    """Flip each byte of a bundle in three ways."""
    with tempfile.TemporaryDirectory(prefix="bundle-") as folder:
        made = make(Path(folder), "data")
    wrong = [each for bit in (0x01, 0x20, 0x80) for each in misnamed(made.data, 1, bit)]
    for at, part, named in wrong:
        click.echo(f"byte {at} is in {part}, and {named} is named")
    click.echo(f"{3 * len(made.data)} flipped bytes, all refused; wrong {len(wrong)}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    command()
