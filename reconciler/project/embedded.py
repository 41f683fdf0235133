"""The embedded sandbox: a project's own emulated platform, a process that ends with its user."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from reconciler.core.errors import ReconcilerError
from reconciler.core.extras import require_extra
from reconciler.core.model import Resource
from reconciler.core.reporter import Reporter
from reconciler.kinds import find_kinds
from reconciler.services.transport import HttpTransport

if TYPE_CHECKING:
    from reconciler.sandbox.lock import Running

SANDBOX_TOKEN = "sandbox"  # noqa: S105 - the default of `reconcile sandbox`; it protects nothing
SANDBOX_CLOCK = "x600"
SANDBOX_SETTLE_S = 1.0
_READY = "listening on "


@contextmanager
def embedded_sandbox(db: Path, seed: Path | None = None) -> Iterator[str]:
    """The address of the sandbox that keeps its world in `db`: the one that runs, or one that is started.

    `seed`: a file with what a new world begins with.
    """
    running = _running_at(db)
    while running is not None:
        if _accepts(running.url):
            yield running.url
            return
        time.sleep(0.05)  # it is ending: its command was killed a moment ago
        running = _running_at(db)
    with _started_sandbox(db, ("--seed", str(seed)) if seed is not None else ()) as url:
        yield url


def _running_at(db: Path) -> "Running | None":
    """The sandbox that serves `db`. Raises ReconcilerError where nobody lets us look."""
    from reconciler.sandbox.lock import running_at

    try:
        for folder in (db.parent.parent, db.parent):  # an environment's own lies in the project's
            folder.mkdir(mode=0o700, exist_ok=True)
        return running_at(db)
    except OSError as failure:
        raise ReconcilerError(
            f"the embedded sandbox cannot use {db.parent}: {failure.strerror}",
            help="check the owner of that folder: --sandbox stores the emulated platform there",
        ) from failure


def _accepts(url: str) -> bool:
    """Whether a process listens at `url`."""
    address = urlsplit(url)
    try:
        socket.create_connection((address.hostname or "", address.port or 80), timeout=1).close()
    except OSError:
        return False
    return True


@contextmanager
def _started_sandbox(db: Path, more: Sequence[str] = ()) -> Iterator[str]:
    """A sandbox process for this command: it ends when its stdin does, so it cannot outlive us."""
    require_extra("sandbox", "the embedded sandbox")
    command = [sys.executable, "-m", "reconciler", "sandbox", "--port", "0", "--db", str(db)]
    command += ["--clock", SANDBOX_CLOCK, "--profile", "extended", "--until-stdin-closes", *more]
    process = subprocess.Popen(  # noqa: S603 - our own program
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a Ctrl-C on the terminal is ours to handle first
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        line = process.stdout.readline().strip()
        if not line.startswith(_READY):
            raise ReconcilerError("the embedded sandbox did not start", help="see its message above")
        yield line.removeprefix(_READY)
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait()


async def seed_sandbox(
    transport: HttpTransport, base_url: str, resources: Sequence[Resource], reporter: Reporter
) -> None:
    """Make what manifests name and cannot create, so that nobody has to make it by hand to try things out.

    These are the apps, the organizations and the machines of `resources`.
    """
    apps = sorted({resource.address.app for resource in resources if resource.address.app})
    slugs = {getattr(resource.spec, "org_slug", None) for resource in resources} - {None}
    kinds = find_kinds()
    named = {
        resource.adopt_id: resource.address.app
        for resource in resources
        if not kinds[resource.address.kind].takes_over
    }
    machines = {}
    if named:
        world = await control(transport, base_url, "GET", "_sandbox/world")
        there = {machine["id"] for machine in world["machines"]}
        machines = {id: app for id, app in sorted(named.items()) if id not in there}
    for name in apps:
        await control(transport, base_url, "POST", "_sandbox/apps", {"name": name})
    for slug in sorted(map(str, slugs)):
        await control(transport, base_url, "POST", "_sandbox/apps", {"org_slug": slug})
    for id, app in machines.items():
        await control(transport, base_url, "POST", "_sandbox/machines", {"app": app, "id": id})
    made = [*apps, *(f"organization {slug}" for slug in sorted(map(str, slugs)))]
    made += [f"machine {id}" for id in machines]
    if made:
        reporter.note(f"embedded sandbox at {base_url} with {', '.join(made)}")


async def control(
    transport: HttpTransport, base_url: str, method: str, path: str, body: Mapping[str, Any] | None = None
) -> Any:
    """The answer of the emulator to a control verb (`_sandbox/…`) or a call of somebody else (`v1/…`)."""
    answer = await transport.request(
        method,
        f"{base_url}/{path}",
        headers={"content-type": "application/json", "authorization": f"Bearer {SANDBOX_TOKEN}"},
        body=None if body is None else json.dumps(body).encode(),
        deadline_s=10,
    )
    if answer.status >= 300:
        raise ReconcilerError(f"the emulated platform answered {answer.status} to {method} /{path}: {body}")
    return json.loads(answer.body)
