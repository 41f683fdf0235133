"""A project whose records are as its first manifests said, and a platform where somebody edited since."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio

from reconciler.core.diagnostics import has_errors
from reconciler.core.model import Address, StateRecord
from reconciler.core.steps import Plan
from reconciler.drift.accept import accept
from reconciler.drift.acceptance import Acceptance, Environments
from reconciler.drift.find import Drift, find_drift
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import located
from reconciler.manifests.load import load
from reconciler.planning.declared import Desired
from reconciler.project.plan import make_plan
from reconciler.project.project import Project
from reconciler.state.store import State
from tests.kinds.case import LONG_AGO, NOW, LivePlatform, project_of
from tests.state.doubles import read_only

VOLUME = """\
apiVersion: reconciler/v1
kind: Volume
metadata: {name: data, app: shop}
spec: {region: ams, size_gb: 10, snapshot_retention: 14}
"""
DATA = Address("Volume", "data", "shop")


@dataclass
class Stage:
    """`moved`: by address, the fields that somebody changed; None: the object is gone.

    `environment`: the one that it is in, with the folder `overlays/NAME`; "" for none.
    """

    root: Path
    moved: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    capabilities: frozenset[str] = frozenset()
    environment: str = ""

    def write(self, text: str | bytes, name: str = "manifests/main.yaml") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def desired(self) -> Desired:
        overlay = str(self.root / "overlays" / self.environment) if self.environment else None
        loaded = load([str(self.root / "manifests")], root=self.root, overlay=overlay)
        assert not has_errors(loaded.diagnostics), loaded.diagnostics
        return Desired(loaded.resources, loaded.diagnostics, policies=loaded.policies)

    def drift(self) -> Drift:
        return anyio.run(find_drift, self.project(), self.desired())

    def plan(self) -> Plan:
        return anyio.run(make_plan, self.project(), self.desired())

    def accept(self, *addresses: str) -> Acceptance:
        """Accept what was there before: records keep what the manifests said first."""
        there = (self.root / "overlays").is_dir()
        environments = Environments(self.environment, "overlays") if there else None
        named = [Address.parse(each) for each in addresses]
        return accept(self.drift(), self.desired(), self.root, named, environments)

    def project(self) -> Project:
        records, live = self._world()
        platform = LivePlatform(live, datetime.fromisoformat(NOW))
        project = project_of({"capabilities": self.capabilities}, self.root, (), platform)
        state = State("lineage-1", records, (), frozenset())
        return replace(project, store=read_only(state, project.clock, self.root))

    def _world(self) -> tuple[dict[Address, StateRecord], dict[str, Any]]:
        """What was applied once, from the first manifests seen, and what is there by now."""
        if not hasattr(self, "_first"):
            self._first = self.desired().resources
        kinds = find_kinds()
        records: dict[Address, StateRecord] = {}
        live: dict[str, Any] = {}
        for number, resource in enumerate(self._first):
            address = resource.address
            id = getattr(resource.spec, "id", None) or f"obj_{number}"
            applied = resource.spec.model_dump(exclude_unset=True, exclude={"id"})
            if isinstance(applied.get("size_gb"), dict):
                applied["size_gb"] = applied["size_gb"]["min"]
            records[address] = StateRecord(
                address, id, address.app or "-", applied, resource.lifecycle, datetime.fromisoformat(LONG_AGO)
            )
            read = located(kinds[address.kind], address, id, self.capabilities, record=records[address])
            if read is None:
                continue
            moved = self.moved.get(str(address), {})
            status = {"status": "ready"} if address.kind == "PostgresCluster" else {"state": "created"}
            found = {"id": id, "name": address.name, **status, **applied, **(moved or {})}
            if address.kind == "Volume":
                listed = live.setdefault(str(read.path), [])
                listed += [found] if moved is not None else []
            else:
                live[str(read.path)] = {"data": found} if address.kind == "PostgresCluster" else found
        return records, live
