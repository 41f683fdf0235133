"""Drills on an emulated platform, with the real executor, in simulated time."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from reconciler.approvals.rules import Authority
from reconciler.core.model import Address
from reconciler.manifests.load import load
from reconciler.planning.declared import Desired
from reconciler.project.drill import Ran, run_drills
from reconciler.project.project import Project
from tests.execution.stage import Stage

ABLE = frozenset({"postgres.delete", "postgres.list", "postgres.backups"})
DATA, ORDERS, WEEKLY = Address("Volume", "data", "shop"), "PostgresCluster/orders", "RestoreDrill/weekly"


def drill(of: object = DATA, spec: str = "", name: str = "weekly") -> str:
    return (
        f"---\napiVersion: reconciler/v1\nkind: RestoreDrill\nmetadata: {{name: {name}}}\n"
        f"spec: {{of: {of}{spec and f', {spec}'}}}\n"
    )


def desired(stage: Stage, manifests: str) -> Desired:
    found = load(["-"] if manifests else [], root=stage.root, stdin=manifests.encode)
    assert found.diagnostics == ()
    return Desired(found.resources, policies=found.policies)


def project_of(stage: Stage, authority: Authority | None = None, **more: Any) -> Project:
    stage.capabilities = ABLE
    project = replace(stage.project(), **more)
    return project if authority is None else replace(project, authority=authority)


async def drilled(
    stage: Stage, manifests: str, *wanted: str, project: Project | None = None
) -> Sequence[Ran]:
    addresses = [Address.parse(each) for each in wanted]
    return await run_drills(project or project_of(stage), desired(stage, manifests), addresses)


def snapshot(stage: Stage) -> None:
    """Take a snapshot of the only volume."""
    (volume,) = stage.volumes()
    stage.call("POST", f"/v1/apps/shop/volumes/{volume['id']}/snapshots", {})


def scratch(stage: Stage) -> list[str]:
    """The names of what drills restored into, and that is there."""
    world: Any = stage.call("GET", "/_sandbox/world", {})
    return [
        each["name"]
        for each in [*world["volumes"], *world["clusters"]]
        if each["name"].startswith("drill-") and each.get("state", each.get("status")) in ("created", "ready")
    ]
