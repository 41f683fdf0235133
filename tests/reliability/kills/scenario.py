"""One apply that uses every operation, and the world that it starts from: prepared once, copied per case."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.cli.harness import Project, Sandbox, cluster, environment, secret, serving, volume
from tests.reliability.shared import Server
from tests.state.doubles import make_state, word_of

# 400 times: a cluster is ready after four looks, and a snapshot serves for 9 real seconds.
CLOCK = "x400"
APP = "shop"
APPROVED_NAME = "old"  # the only object that may be deleted
APPROVED = f"Volume/{APP}/{APPROVED_NAME}"
APPLY = ("apply", "--auto-approve", "--approve-delete", APPROVED, "--output", "json")

# Volumes and clusters that must be there in the end: name → how many.
VOLUMES = {
    "data": 2,
    "copy": 1,
    "restored": 1,
    "grow": 1,
    "tuned": 1,
    "aged": 1,
    "found": 1,
    "foreign": 1,
}
CLUSTERS = {"orders": 1, "fresh": 1, "orders-copy": 1}
OWNED_BY_OTHERS = ("foreign",)  # never ours, so never recorded
FIELDS: Mapping[str, Mapping[str, Any]] = {
    "data": {"size_gb": 10, "snapshot_retention": 14},
    "copy": {"size_gb": 10},
    "restored": {"size_gb": 4},
    "grow": {"size_gb": 20},
    "tuned": {"snapshot_retention": 21},
}
# A snapshot for each of these reasons, and never a second one.
SNAPSHOTS = {"grow": "before it grew", "old": "before it was deleted", "aged": "because of its age"}
OWES_A_RESTART = f"Volume/{APP}/grow"
# Machines by id: the state that each begins in, the one that it must be in at the end, and the call for it.
MACHINES = {"naps": ("started", "suspended", "suspend"), "wakes": ("suspended", "started", "start")}
# … where a machine can be stopped too, which is not documented.
STOPPED_MACHINES = {"halts": ("started", "stopped", "stop")}

# The database keeps them. Snapshots are counted, so the platform takes none of its own; and memory takes
# so long to save that a look comes before it is done.
_SWITCHES = ("--switch", "daily_snapshots=off", "--switch", "suspending_s=60")

_PASSWORD = "correct-horse"  # of the emulated platform
_ROTATED = {"before": "battery", "after": "staple"}
_DELETABLE = "lifecycle: {deletion: delete}\n"
_POLICY = (
    "---\napiVersion: reconciler/v1\nkind: RetentionPolicy\nmetadata: {name: daily}\n"
    "spec: {selector: {labels: {tier: prod}}, snapshot_max_age_h: 48}\n"
)


@dataclass(frozen=True, slots=True)
class Template:
    """A project and a sandbox's database in `root`, to begin a case with.

    `extended`: the platform also has the endpoints that the API document does not show, so clusters are
    listed, and the restart that the extend asks for is carried out. `world`: what the sandbox showed
    before anything was applied of what is judged, and `seq` the last line of its log then. `server`:
    where each case has its state; None for a file.
    """

    root: Path
    extended: bool
    world: Mapping[str, Any]
    seq: int
    server: Server | None = None

    @property
    def profile(self) -> str:
        return "extended" if self.extended else "documented"

    def environment(self, sandbox: Sandbox) -> dict[str, str]:
        capabilities = {"RECONCILE_CAPABILITIES": "extended"} if self.extended else {}
        word = word_of(self.root / "project")
        created = ",".join(f"PostgresCluster/{name}@{word}" for name in ("fresh", "orders-copy"))
        return environment(
            sandbox.url,
            SHOP_PASSWORD=_PASSWORD,
            SHOP_ROTATED=_ROTATED["after"],
            RECONCILE_APPROVE_CREATE=created,
            **capabilities,
        )

    def copied(self, root: Path) -> tuple[Path, Path]:
        """The copied project's directory and the copied database."""
        shutil.copytree(self.root, root)
        return root / "project", root / "sandbox.db"


def prepared(root: Path, *, extended: bool = False) -> Template:
    """Make the template in `root`, by applying a first set of manifests and by other people's hands."""
    project_root = root / "project"
    (project_root / "manifests").mkdir(parents=True)
    make_state(project_root)
    project = Project(project_root)
    project.write("manifests: [manifests]\n", "reconcile.yaml")
    with serving("--clock", CLOCK, "--db", str(root / "sandbox.db"), *_SWITCHES) as sandbox:
        project.env |= environment(sandbox.url, SHOP_ROTATED=_ROTATED["before"])
        sandbox.app(APP)
        project.write(_first_manifests())
        project.apply(*project.creating("PostgresCluster/orders"))
        # Every age that the apply compares with is behind it, and the policy asks for a snapshot.
        sandbox.advance(72 * 3600)
        ids = {each["name"]: each["id"] for each in sandbox.volumes(APP)}
        sandbox.machine(APP, ids["grow"])
        for id, (state, _, _) in machines(extended=extended).items():
            sandbox.call("POST", "/_sandbox/machines", {"app": APP, "id": id, "state": state})
        sandbox.call("DELETE", f"/v1/apps/{APP}/volumes/{ids['gone']}")
        sandbox.make_volume(APP, "found", size_gb=5)
        foreign = sandbox.make_volume(APP, "foreign", size_gb=4)
        origin = _snapshot(sandbox, foreign)
        project.write(_manifests(origin, sandbox.clusters("orders")[0]["created_at"], extended=extended))
        world = sandbox.call("GET", "/_sandbox/world")
        seq = sandbox.call("GET", "/_sandbox/log")[-1]["seq"]
    return Template(root, extended, world, seq)


def machines(*, extended: bool) -> Mapping[str, tuple[str, str, str]]:
    return MACHINES | STOPPED_MACHINES if extended else MACHINES


def wanted_secrets(world: Mapping[str, Any]) -> dict[str, str]:
    """The values that must be set, by name; the template's host is the new cluster's."""
    hosts = [
        each["endpoints"]["primary"]["pooler"]["host"]
        for each in world["clusters"]
        if each["name"] == "fresh" and each["endpoints"]
    ]
    return {
        "PASSWORD": _PASSWORD,
        "ROTATED": _ROTATED["after"],
        "DSN": f"postgres://app:{_PASSWORD}@{hosts[0] if hosts else ''}/app",
    }


def _first_manifests() -> str:
    return "".join(
        [
            volume(APP, "grow"),
            volume(APP, "tuned", spec="region: ams, size_gb: 3"),
            volume(APP, "aged", spec="region: ams, size_gb: 3"),
            volume(APP, "old", spec="region: fra, size_gb: 3", rest=_DELETABLE),
            volume(APP, "gone", spec="region: fra, size_gb: 3", rest=_DELETABLE),
            cluster("orders"),
            secret(APP, "ROTATED", "env: SHOP_ROTATED"),
        ]
    )


def _manifests(origin: str, since: str, *, extended: bool) -> str:
    restart = ", restart: auto" if extended else ""
    return "".join(
        [
            volume(APP, spec="region: ams, size_gb: 10, count: 2, snapshot_retention: 14"),
            volume(APP, "copy", spec="region: ams, size_gb: 10, from: {volume: data}"),
            volume(APP, "restored", spec=f"region: ams, size_gb: 4, from: {{snapshot_id: {origin}}}"),
            volume(
                APP,
                "grow",
                spec="region: ams, size_gb: 20",
                rest=f"lifecycle: {{snapshot_before: [extend]{restart}}}\n",
            ),
            volume(APP, "tuned", spec="region: ams, size_gb: 3, snapshot_retention: 21"),
            volume(APP, "aged", spec="region: ams, size_gb: 3").replace(
                "app: shop}", "app: shop, labels: {tier: prod}}"
            ),
            volume(APP, "found", spec="region: ams, size_gb: 5"),
            _POLICY,
            cluster("orders"),
            cluster("fresh"),
            cluster("orders-copy", spec=f'restore: {{from: orders, pitr_time: "{_later(since)}"}}'),
            *(_machine(id, power) for id, (_, power, _) in machines(extended=extended).items()),
            secret(APP, "PASSWORD", "env: SHOP_PASSWORD"),
            secret(APP, "ROTATED", "env: SHOP_ROTATED"),
            secret(
                APP,
                "DSN",
                'template: "postgres://app:${env:SHOP_PASSWORD}'
                '@${PostgresCluster/fresh:endpoints.primary.pooler.host}/app"',
            ),
        ]
    )


def _machine(id: str, power: str) -> str:
    return (
        f"---\napiVersion: reconciler/v1\nkind: Machine\nmetadata: {{name: {id}, app: {APP}}}\n"
        f"spec: {{id: {id}, power: {power}}}\n"
    )


def _snapshot(sandbox: Sandbox, volume_id: str) -> str:
    """A finished snapshot that somebody else took."""
    path = f"/v1/apps/{APP}/volumes/{volume_id}/snapshots"
    sandbox.call("POST", path)
    sandbox.advance(60)
    (made,) = sandbox.call("GET", path)
    id: str = made["id"]
    return id


def _later(since: str) -> str:
    """A moment at which a cluster that was made at `since` was ready: half an hour later."""
    moment = datetime.fromisoformat(since) + timedelta(minutes=30)
    return moment.isoformat().replace("+00:00", "Z")
