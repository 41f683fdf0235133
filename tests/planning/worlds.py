"""Small random worlds to plan in: manifests, records and a platform, which agree or do not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from hypothesis import strategies as st

from reconciler.core.diagnostics import UNKNOWN_OUTCOME, error
from reconciler.core.model import Address, Deletion, Lifecycle, Observation, Resource, StateRecord
from reconciler.core.steps import Plan, Read
from reconciler.kinds import find_kinds
from reconciler.moves.compare import LEFT, Elsewhere
from reconciler.planning.planner import Planner
from reconciler.planning.subjects import PlanRequest
from reconciler.services.machines.wire.cluster import Cluster
from reconciler.services.machines.wire.volume import Snapshot, Volume
from tests.contexts import context

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LONG_AGO, JUST_NOW = NOW - timedelta(days=30), NOW - timedelta(seconds=20)

CLUSTER = Address("PostgresCluster", "orders")
VOLUMES = [Address("Volume", name, "shop") for name in ("data", "logs", "data2")]
VOLUMES.append(Address("Volume", "data", "web"))
SECRETS = [Address("Secret", name, "shop") for name in ("URL", "PASSWORD")]
HOST = "${PostgresCluster/orders:endpoints.primary.pooler.host}"


@dataclass(frozen=True)
class World:
    """A request, and what the platform would answer. `unreadable`: paths that it does not answer."""

    request: PlanRequest
    volumes: Mapping[str, Sequence[Volume]] = field(default_factory=dict)
    clusters: Mapping[str, Cluster] = field(default_factory=dict)
    snapshots: Sequence[Snapshot] = ()
    unreadable: frozenset[str] = frozenset()
    fingerprints: Mapping[Address, str] = field(default_factory=dict)

    def answer(self, read: Read) -> Observation:
        path = str(read.path)
        if path in self.unreadable:
            return Observation((), complete=False, at=NOW, problem="no answer")
        if path.endswith("/snapshots"):
            return Observation(self.snapshots, complete=True, at=NOW)
        if path.startswith("/v1/postgres/"):
            found = self.clusters.get(path.rpartition("/")[2])
            return Observation([found] if found is not None else [], complete=True, at=NOW)
        assert path.endswith("/volumes"), path
        return Observation(self.volumes.get(path.split("/")[3], ()), complete=True, at=NOW)

    def plan(self, order: int = 0) -> Plan:
        """The plan, with the answers coming in the order that the number `order` stands for."""
        return self.answered(order).finish(self.fingerprints)

    def answered(self, order: int = 0) -> Planner:
        """What has all answers, in the order that the number `order` stands for."""
        shuffle = Random(order).shuffle
        planner = Planner(self.request)
        for reads, answer in ((planner.reads, planner.answer), (planner.more_reads, planner.more_answer)):
            pending = list(reads())
            shuffle(pending)
            for read in pending:
                answer(read, self.answer(read))
        return planner


def resource(address: Address, spec: Mapping[str, Any], **more: Any) -> Resource:
    kind = find_kinds()[address.kind]
    parsed = kind.Spec.model_validate(spec)
    references = tuple(kind.references(parsed, address))
    return Resource(
        address, parsed, more.pop("lifecycle", Lifecycle()), "m.yaml", {}, references=references, **more
    )


def record(address: Address, id: str, applied: Mapping[str, Any], **more: Any) -> StateRecord:
    lifecycle, made = more.pop("lifecycle", Lifecycle()), more.pop("created_at", LONG_AGO)
    return StateRecord(
        address, id, address.app or "org/personal", applied, lifecycle, made, "m.yaml", serial=1, **more
    )


def request(resources: Sequence[Resource], records: Sequence[StateRecord], **more: Any) -> PlanRequest:
    by_address = {each.address: each for each in records}
    kinds = find_kinds()
    return PlanRequest("plan", context("state", NOW), kinds, resources, by_address, frozenset(), **more)


IDS = [f"vol_{number}" for number in range(1, 6)]
LIFECYCLES = st.builds(
    Lifecycle, deletion=st.sampled_from(Deletion), snapshot_before=st.sampled_from([(), ("delete", "extend")])
)


def subset(items: Sequence[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.sampled_from(items), unique=True) if items else st.just([])


def volume_fields(draw: st.DrawFn) -> dict[str, Any]:
    """What a manifest says, or a record: any of it may be missing."""
    known: dict[str, list[Any]] = {
        "region": ["ams", "fra"],
        "size_gb": [10, 20],
        "snapshot_retention": [5, 7],
        "encrypted": [True],
    }
    return {name: draw(st.sampled_from(known[name])) for name in draw(subset([*known]))}


@st.composite
def worlds(draw: st.DrawFn) -> World:
    resources, records = [], []
    for address in draw(subset(VOLUMES)):
        objectives = draw(st.sampled_from([{}, {}, {"snapshot_max_age_h": 24}]))
        adopts = draw(st.sampled_from([None, None, None, None, *IDS[:2]]))
        lifecycle = draw(LIFECYCLES)
        resources.append(
            resource(
                address, volume_fields(draw), adopt_id=adopts, objectives=objectives, lifecycle=lifecycle
            )
        )
    for address in draw(subset(SECRETS)):
        source = draw(st.sampled_from([{"env": "PW"}, {"template": HOST}]))
        resources.append(resource(address, {"value_from": source}))
    if draw(st.booleans()):
        resources.append(resource(CLUSTER, {"org_slug": "personal", "plan": "starter", "region": "ams"}))
    recorded_ids = st.one_of(st.permutations(IDS), st.just(IDS[:1] * len(VOLUMES)))
    for address, id in zip(draw(subset(VOLUMES)), draw(recorded_ids), strict=False):
        applied = {"name": address.name, **volume_fields(draw), **draw(st.sampled_from([{}, {LEFT: True}]))}
        if draw(st.booleans()):
            applied["origin"] = None
        records.append(_record(draw, address, id, applied))
    known = {each: {"name": each.name, "fingerprint": "one"} for each in draw(subset(SECRETS))}
    records += [_record(draw, address, address.name, applied) for address, applied in known.items()]
    if draw(st.booleans()):
        records.append(_record(draw, CLUSTER, "pg1", {"name": "orders", "plan": "starter", "region": "ams"}))
    wanted = {each.address for each in resources}
    unwanted = [each.address for each in records if each.address not in wanted]
    not_given = draw(subset(unwanted))
    every = sorted({*wanted, *unwanted}, key=str)
    unknown = {
        each: error(UNKNOWN_OUTCOME, f"what became of {each}?")
        for each in draw(st.one_of(st.just([]), subset(every)))
    }
    asked = request(
        draw(st.permutations(resources)),
        records,
        undecided=unknown,
        focus=draw(st.one_of(st.none(), subset(every))),
        elsewhere=Elsewhere(frozenset(not_given), frozenset(draw(subset(not_given)))),
    )
    volumes: dict[str, list[Volume]] = {"shop": [], "web": []}
    for id in draw(subset(IDS)):
        places = [each.address for each in records if each.id == id and draw(st.booleans())]
        place = draw(st.sampled_from(places or VOLUMES))
        state = draw(st.sampled_from(["created", "created", "creating", "destroyed"]))
        fields = {"region": "ams", "size_gb": 10, "encrypted": True, **volume_fields(draw)}
        volumes[str(place.app)].append(Volume(id=id, name=place.name, state=state, **fields))
    status = draw(st.sampled_from(["ready", "creating", "deleted", None]))
    clusters = {} if status is None else {"pg1": _cluster(status)}
    paths = ["/v1/apps/shop/volumes", "/v1/apps/web/volumes", "/v1/postgres/pg1"]
    paths += [f"/v1/apps/{app}/volumes/{id}/snapshots" for app in volumes for id in IDS]
    snapshots = [
        Snapshot(
            id="vs_1", created_at=draw(st.sampled_from([LONG_AGO, JUST_NOW])).isoformat(), status="created"
        )
    ]
    return World(
        asked,
        volumes,
        clusters,
        snapshots[: draw(st.integers(0, 1))],
        frozenset(draw(st.one_of(st.just([]), subset(paths)))),
        {address: draw(st.sampled_from(["one", "two"])) for address in draw(subset(SECRETS))},
    )


def _record(draw: st.DrawFn, address: Address, id: str, applied: Mapping[str, Any]) -> StateRecord:
    made = draw(st.sampled_from([LONG_AGO, LONG_AGO, JUST_NOW]))
    inferred = draw(st.sampled_from([False, False, False, True]))
    return record(address, id, applied, lifecycle=draw(LIFECYCLES), created_at=made, inferred=inferred)


def _cluster(status: str) -> Cluster:
    return Cluster(
        id="pg1",
        name="orders",
        plan="starter",
        region="ams",
        status=status,
        endpoints={"primary": {"pooler": {"host": "db.internal"}}},
    )


@st.composite
def converged(draw: st.DrawFn) -> World:
    """A world in which each resource is recorded, and its object is what manifest and record say."""
    resources, records = [], []
    volumes: dict[str, list[Volume]] = {"shop": [], "web": []}
    for number, address in enumerate(draw(subset(VOLUMES))):
        fields, lifecycle, id = volume_fields(draw), draw(LIFECYCLES), f"vol_{number}"
        resources.append(
            resource(address, fields, lifecycle=lifecycle, adopt_id=draw(st.sampled_from([None, id])))
        )
        live = {"region": "fra", "size_gb": 3, **fields}
        made, applied = draw(st.sampled_from([LONG_AGO, JUST_NOW])), {"name": address.name, **live}
        records.append(record(address, id, applied, lifecycle=lifecycle, created_at=made))
        volumes[str(address.app)].append(Volume(id=id, name=address.name, state="created", **live))
    if draw(st.booleans()):
        fields = {"org_slug": "personal", "plan": "starter", "region": "ams"}
        resources.append(resource(CLUSTER, fields))
        records.append(record(CLUSTER, "pg1", {"name": "orders", **fields}))
        for address in draw(subset(SECRETS)):
            resources.append(resource(address, {"value_from": {"template": HOST}}))
            records.append(record(address, address.name, {"name": address.name, "fingerprint": "one"}))
    fingerprints = dict.fromkeys(SECRETS, "one")
    asked = request(draw(st.permutations(resources)), records)
    return World(asked, volumes, {"pg1": _cluster("ready")}, fingerprints=fingerprints)
