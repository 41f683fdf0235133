"""Projects to be confused: their state and their platform, copied from templates for every case."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from reconciler.approvals.creates import Everything
from reconciler.core.diagnostics import has_errors
from reconciler.core.model import Address
from reconciler.core.reporter import Reporter
from reconciler.execution.limits import Limits
from reconciler.manifests.load import load
from reconciler.planning.declared import Desired
from reconciler.project.apply import apply
from reconciler.project.identity import create_state
from reconciler.project.project import Project
from reconciler.project.run import Applied
from reconciler.project.sections import known_capabilities
from reconciler.sandbox.core import Sandbox
from reconciler.sandbox.exchange import Request
from reconciler.secrets.sources import Sources
from reconciler.services.platform import platform_client
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.spooling import Spooling
from tests.cli.harness import cluster, secret, volume
from tests.execution.stage import BASE_URL, START, TOKEN, Permitted, Time
from tests.reliability.responses.line import Exchange, MutatingTransport, Mutator, Recorded
from tests.state.doubles import spooling

SETTLE_S = 60.0
VALUE = "kept-in-memory-77aa"
QUIET = Mutator("", {}, {})
ORDERS = Address.parse("PostgresCluster/orders")

_URL = '"${env:PASSWORD}@${PostgresCluster/orders:endpoints.primary.pooler.host}"'
_SECRETS = secret("shop", "PASSWORD", "env: PASSWORD") + secret("shop", "DATABASE_URL", f"template: {_URL}")


def _volume(name: str, spec: str, lifecycle: str = "timeout_s: 60") -> str:
    return volume("shop", name, f"region: ams, {spec}", f"lifecycle: {{{lifecycle}}}\n")


_SLOW = "lifecycle: {timeout_s: 600}\n"
_ORDERS = cluster("orders", rest=_SLOW)
_STAGING = _volume("staging", "size_gb: 10, from: {volume: data}", "deletion: delete, timeout_s: 60")
_SCRATCH = _volume("scratch", "size_gb: 3", "deletion: delete, snapshot_before: []")

FIRST = (
    _volume("data", "size_gb: 10") + _volume("cache", "size_gb: 3") + _ORDERS + _SECRETS + _STAGING + _SCRATCH
)

# Against FIRST: grow with a snapshot first, update, set a secret, delete with and without a snapshot,
# restore, create, fork.
SECOND = (
    _volume("data", "size_gb: 20", "snapshot_before: [extend], timeout_s: 60")
    + _volume("cache", "size_gb: 3, snapshot_retention: 14")
    + _ORDERS
    + _SECRETS
    + cluster("copy", 'restore: {from: orders, pitr_time: "2026-01-01T00:30:00Z"}', _SLOW)
    + _volume("more", "size_gb: 2")
    + _volume("fork", "size_gb: 3, from: {volume: cache}")
)
LOST_VOLUMES = _volume("landed", "size_gb: 10") + _volume("vanished", "size_gb: 10")
LOST = LOST_VOLUMES + _ORDERS


@dataclass(slots=True)
class Scene:
    """One project on one platform. `open_scene` makes it, `close` gives it back."""

    folder: Path
    time: Time
    sandbox: Sandbox
    store: Spooling
    transport: MutatingTransport
    project: Project

    async def close(self) -> None:
        await self.transport.aclose()
        await self.store.close()
        self.sandbox.close()

    def desired(self, manifests: str) -> Desired:
        loaded = load(["-"], root=self.folder, stdin=manifests.encode)
        assert not has_errors(loaded.diagnostics), loaded.diagnostics
        return Desired(loaded.resources)

    async def apply(self, manifests: str, *, approved_deletes: Sequence[str] = ()) -> Applied:
        return await apply(
            self.project,
            self.desired(manifests),
            approve=lambda plan: True,
            approved_deletes=Permitted(approved_deletes),
            approved_creates=Everything(),
        )

    @property
    def exchanges(self) -> list[Exchange]:
        return self.transport.exchanges

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The platform, asked past the line."""
        content = b"" if body is None else json.dumps(body).encode()
        answer = self.sandbox.handle(Request(method, path, "", {"authorization": f"Bearer {TOKEN}"}, content))
        assert answer.status < 300, answer.body
        return answer.json()

    def world(self) -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = self.call("GET", "/_sandbox/world")
        return found

    async def addresses(self) -> list[Address]:
        return sorted((await self.store.load()).records)


def open_scene(
    folder: Path, mutations: Mutator | Recorded = QUIET, *, extended: bool = False, password: str = VALUE
) -> Scene:
    """What `folder` holds, from the moment at which it was left."""
    noted = folder / "elapsed"
    time = Time()
    time.elapsed_s = float(noted.read_text()) if noted.exists() else 0.0
    sandbox = Sandbox(
        db=folder / "sandbox.db",
        clock="real",
        profile="extended",
        apps=() if noted.exists() else [{"name": "shop"}],
        wall=START.timestamp,
        monotonic=time.monotonic,
        rng=Random(time.elapsed_s),  # not the ids that are there already
    )
    store = spooling(SqliteStore(folder / "state.db", time), time, folder)
    transport = MutatingTransport(sandbox, BASE_URL, mutations)
    ids = count(1)
    project = Project(
        store=store,
        capabilities=known_capabilities() if extended else frozenset(),
        platform=platform_client(transport, BASE_URL, lambda: TOKEN, time, jitter=lambda: 1.0),
        limits=Limits(8, 30.0, SETTLE_S, True, 64),
        clock=time,
        reporter=Reporter(),
        sources=Sources(folder, {"PASSWORD": password}),
        new_id=lambda: f"id{next(ids)}-{time.elapsed_s:g}",
        holder="the test",
    )
    return Scene(folder, time, sandbox, store, transport, project)


async def leave(scene: Scene) -> None:
    """Close the scene so that its folder can be opened again, or copied."""
    scene.world()  # stores the clock too
    (scene.folder / "elapsed").write_text(str(scene.time.elapsed_s))
    await scene.close()


async def make_templates(folder: Path) -> None:
    """`empty`, `converged`, `lost` and `lost-volumes` below `folder`."""
    (folder / "empty").mkdir()
    begun = open_scene(folder / "empty")
    await create_state(begun.project.store, begun.project.actor())
    await leave(begun)
    shutil.copytree(folder / "empty", folder / "converged")
    scene = open_scene(folder / "converged")
    applied = await scene.apply(FIRST)
    assert {result.outcome for result in applied.results} == {"done"}, applied.results
    data = next(volume["id"] for volume in scene.world()["volumes"] if volume["name"] == "data")
    scene.call("POST", "/_sandbox/machines", {"app": "shop", "volumes": [data]})
    await scene.time.sleep(3600)
    await leave(scene)
    for name, manifests in (("lost", LOST), ("lost-volumes", LOST_VOLUMES)):
        shutil.copytree(folder / "empty", folder / name)
        await _lose(open_scene(folder / name), manifests)


async def _lose(scene: Scene, manifests: str) -> None:
    """Creates whose answers are lost and whose lists cannot be read: one volume lands, one does not."""
    volumes = "/v1/apps/shop/volumes"
    for fault in (
        {"method": "GET", "path": volumes, "action": "delay", "times": 2},
        {"method": "GET", "path": volumes, "action": "status", "status": 403, "times": None},
        {"method": "POST", "path": volumes, "action": "drop_after"},
        {"method": "POST", "path": volumes, "action": "drop_before"},
        {"method": "POST", "path": "/v1/postgres", "action": "drop_after"},
    ):
        scene.call("POST", "/_sandbox/faults", fault)
    applied = await scene.apply(manifests)
    assert {result.outcome for result in applied.results} == {"unknown"}, applied.results
    scene.call("DELETE", "/_sandbox/faults")
    await leave(scene)
