"""A project folder before a platform of given answers: imports and plans, without a process or a network."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio

from reconciler.core.diagnostics import has_errors
from reconciler.core.model import Address, Lifecycle, StateRecord
from reconciler.core.steps import Plan
from reconciler.importing.files import Planned, Present, arrange, put_all
from reconciler.importing.search import Wanted
from reconciler.importing.unmanaged import Unmanaged, find_unmanaged
from reconciler.manifests.load import Loaded, load
from reconciler.planning.declared import Desired
from reconciler.project.plan import make_plan
from reconciler.project.project import Project
from reconciler.state.store import JournalEntry, State
from tests.kinds.case import LivePlatform, project_of
from tests.state.doubles import read_only

NOW = datetime(2026, 6, 1, tzinfo=UTC)
ALL = frozenset({"postgres.list", "secrets.list", "machine.list"})


def volumes(app: str) -> str:
    return f"/v1/apps/{app}/volumes"


def volume(id: str = "vol_1", **fields: Any) -> dict[str, Any]:
    """A volume on which everything but its region is as the platform's defaults."""
    defaults = {"size_gb": 3, "encrypted": True, "fstype": "ext4", "snapshot_retention": 5}
    return {"id": id, "name": "data", "state": "created", "region": "ams", "zone": "a1", **defaults, **fields}


def cluster(id: str = "orders0000000000", **fields: Any) -> dict[str, Any]:
    defaults = {"disk_size_gb": 10, "pg_major_version": "16", "postgis_enabled": False, "status": "ready"}
    organization = {"organization": {"name": "Acme", "slug": "acme"}}
    named = {"id": id, "name": "orders", "plan": "starter", "region": "ams"}
    return {**named, **organization, **defaults, **fields}


def record(address: str, id: str) -> StateRecord:
    parsed = Address.parse(address)
    return StateRecord(parsed, id, parsed.app or "org/acme", {}, Lifecycle(), NOW)


@dataclass
class Scene:
    """`live`: the platform's answers by path. All manifests stand in `folder`."""

    root: Path
    live: dict[str, Any] = field(default_factory=dict)
    capabilities: frozenset[str] = frozenset()
    records: Mapping[Address, StateRecord] = field(default_factory=dict)
    intents: tuple[JournalEntry, ...] = ()

    def __post_init__(self) -> None:
        self.folder = self.root / "manifests"
        self.platform = LivePlatform(self.live, NOW)

    def record(self, *records: StateRecord) -> None:
        self.records = {each.address: each for each in records}

    def write(self, text: str | bytes, name: str = "hand.yaml") -> Path:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def read(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    def found(self, *apps: str, **wanted: Any) -> Unmanaged:
        return anyio.run(find_unmanaged, self._project(), self._present(), Wanted(apps, **wanted))

    def planned(self, unmanaged: Unmanaged) -> list[Planned]:
        return arrange(unmanaged.entries, self._present(), self.folder)

    def run(self, *apps: str, **wanted: Any) -> Unmanaged:
        """Import into files."""
        unmanaged = self.found(*apps, **wanted)
        anyio.run(put_all, self.planned(unmanaged))
        return unmanaged

    def plan(self) -> Plan:
        loaded = self._loaded()
        desired = Desired(loaded.resources, loaded.diagnostics, policies=loaded.policies)
        return anyio.run(make_plan, self._project(), desired)

    def _present(self) -> Present:
        paths = [str(self.folder)] if self.folder.exists() else []
        return Present(self.root, lambda more: load([*paths, *more], root=self.root), self._loaded())

    def _loaded(self) -> Loaded:
        loaded = load([str(self.folder)] if self.folder.exists() else [], root=self.root)
        assert not has_errors(loaded.diagnostics), loaded.diagnostics
        return loaded

    def _project(self) -> Project:
        project = project_of({"capabilities": self.capabilities}, self.root, (), self.platform)
        state = State("lineage", self.records, self.intents, frozenset())
        return replace(project, store=read_only(state, project.clock, self.root))


def addresses(unmanaged: Unmanaged) -> list[str]:
    return [str(entry.address) for entry in unmanaged.entries]


def reasons(unmanaged: Unmanaged) -> list[str]:
    return [each.reason for each in unmanaged.skipped]


def codes(unmanaged: Unmanaged) -> list[str]:
    return [each.code for each in unmanaged.diagnostics]


def actions(plan: Plan) -> Sequence[tuple[str, str]]:
    return [(str(change.address), str(change.action)) for change in plan.changes]
