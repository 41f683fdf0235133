"""A plan with a call in it that is not the step's own: nothing of it is sent, whoever wrote the plan."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.core.diagnostics import Diagnostic
from reconciler.core.errors import Refused
from reconciler.core.model import Action, Address, Deletion, Lifecycle, Resource, StateRecord
from reconciler.core.steps import (
    Binding,
    Call,
    IfOwed,
    OutputRef,
    Plan,
    Read,
    SecretRef,
    Step,
    StepEffect,
    Template,
)
from reconciler.core.wire import many, one
from reconciler.execution.outputs import Outputs
from reconciler.execution.own_calls import Grounds, OwnCalls
from reconciler.pipeline.create_approvals import Everything
from reconciler.pipeline.declared import Desired
from reconciler.pipeline.plan import make_plan
from reconciler.pipeline.saved import run_saved
from reconciler.services.machines.wire.cluster import Cluster
from reconciler.services.machines.wire.machine import MachineWaited
from reconciler.services.machines.wire.volume import Volume
from tests.execution.stage import Stage, loaded, outcomes

OLD = "Volume/shop/old"
APPROVED = Everything()

MUTATIONS = ("POST", "PUT", "PATCH", "DELETE")

Request = tuple[str, str]


def document(kind: str, name: str, spec: str, app: str = "shop", rest: str = "") -> str:
    place = f", app: {app}" if app else ""
    return (
        f"---\napiVersion: reconciler/v1\nkind: {kind}\nmetadata: {{name: {name}{place}}}\n"
        f"spec: {spec}\n{rest}"
    )


def before() -> str:
    return (
        document("Volume", "data", "{region: ams, size_gb: 10}", rest="lifecycle: {restart: auto}\n")
        + document("Volume", "kept", "{region: ams, size_gb: 10}")
        + document("Volume", "old", "{region: ams, size_gb: 10}", rest="lifecycle: {deletion: delete}\n")
        + document("Volume", "data", "{region: ams, size_gb: 10}", "prod")
        + document("Secret", "PASSWORD", "{value_from: {env: PASSWORD}}", "prod")
        + document("Secret", "TAKEN", "{value_from: {env: PASSWORD}}")
        + document("PostgresCluster", "orders", "{org_slug: personal, plan: starter, region: ams}", "")
    )


def after() -> str:
    return (
        document(
            "Volume",
            "data",
            "{region: ams, size_gb: 20, snapshot_retention: 9}",
            rest="lifecycle: {restart: auto, snapshot_before: [extend, delete]}\n",
        )
        + document("Volume", "kept", "{region: ams, size_gb: 10}")
        + document("Volume", "data", "{region: ams, size_gb: 10}", "prod")
        + document("Volume", "new", "{region: ams, size_gb: 5}")
        + document("Volume", "found", "{region: ams, size_gb: 20}")
        + document("Secret", "PASSWORD", "{value_from: {env: PASSWORD}}", "prod")
        + document("Secret", "TAKEN", "{value_from: {env: PASSWORD}}")
        + document("Secret", "FRESH", "{value_from: {env: PASSWORD}}")
        + document("Machine", "worker", "{id: m2, power: suspended}")
        + document("PostgresCluster", "orders", "{org_slug: personal, plan: starter, region: ams}", "")
        + document("PostgresCluster", "more", "{org_slug: personal, plan: starter, region: ams}", "")
    )


def changes_at(path: str) -> list[Request]:
    return [("PUT", path), ("PUT", f"{path}/extend"), ("POST", f"{path}/snapshots")]


class Scene:
    """Two apps, with a plan for one of them that uses each kind of call."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.plan: Plan = None  # type: ignore[assignment]  # made by `begin`
        self.own: Mapping[str, Sequence[Request]] = {}
        self.planned: Sequence[Request] = ()
        self.problems: Sequence[Diagnostic] = ()
        self.outcomes: Mapping[str, str] = {}
        self.paths: Sequence[str] = ()

    async def begin(self) -> None:
        stage = self.stage
        stage.call("POST", "/_sandbox/apps", {"name": "prod"})
        stage.call("POST", "/_sandbox/apps", {"name": "elsewhere", "org_slug": "others"})
        stage.capabilities = frozenset(
            {"machine.restart", "machine.get", "postgres.delete", "secrets.delete"}
        )
        stage.call("POST", "/_sandbox/switches", {"extend_needs_restart": "always"})
        await stage.apply(before())
        ids = {(each["app"], each["name"]): each["id"] for each in stage.volumes()}
        data, old, kept, prod = (
            ids[key] for key in (("shop", "data"), ("shop", "old"), ("shop", "kept"), ("prod", "data"))
        )
        stage.call("POST", "/_sandbox/machines", {"app": "shop", "id": "m1", "volumes": [data]})
        stage.call("POST", "/_sandbox/machines", {"app": "shop", "id": "m2"})
        stage.call("POST", "/_sandbox/machines", {"app": "prod", "id": "m3", "volumes": [prod]})
        found = stage.make_volume("found")
        cluster = (await stage.record("PostgresCluster/orders")).id
        self.plan = await make_plan(stage.project(), Desired(loaded(stage, after())))
        self.planned = [(each.call.method, str(each.call.path)) for each in self.plan.steps if each.mutates]
        shop, of = "/v1/apps/shop", "/v1/apps/shop/volumes/{}".format
        self.own = {
            "Volume/shop/data": [
                *changes_at(of(data)),
                ("POST", f"{shop}/machines/m1/restart"),
                ("POST", f"{shop}/machines/m1/stop"),
                ("POST", f"{shop}/machines/m1/start"),
            ],
            OLD: [("DELETE", of(old)), *changes_at(of(old))],
            "Volume/shop/new": [("POST", f"{shop}/volumes")],
            "Volume/shop/found": changes_at(of(found)),
            "Secret/shop/FRESH": [("POST", f"{shop}/secrets/FRESH")],
            "Machine/shop/worker": [
                ("POST", f"{shop}/machines/m2/suspend"),
                ("POST", f"{shop}/machines/m2/start"),
            ],
            "PostgresCluster/more": [("POST", "/v1/postgres"), ("POST", f"/v1/postgres/{cluster}/restore")],
        }
        objects = [of(data), of(old), of(kept), of(found), of(prod), f"/v1/apps/prod/volumes/{prod}"]
        self.paths = [
            *(path + rest for path in objects for rest in ("", "/extend", "/snapshots", "/")),
            *(f"{shop}/machines/{id}/{verb}" for id in ("m1", "m2", "m3") for verb in ("restart", "stop")),
            *(f"/v1/apps/prod/machines/m3/{verb}" for verb in ("restart", "suspend", "start", "stop")),
            *(f"/v1/apps/{app}/secrets/{name}" for app in ("shop", "prod") for name in ("PASSWORD", "TAKEN")),
            "/v1/apps/prod/volumes",
            "/v1/apps/prod/secrets/LOOT",
            "/v1/apps/shop/../prod/volumes",
            f"/v1/postgres/{cluster}",
            f"/v1/postgres/{cluster}/restore",
            "/v1/postgres",
            "/v1/apps",
        ]
        stage.line.sent.clear()

    def step(self, id: str) -> Step:
        return next(step for step in self.plan.steps if step.id == id)

    def with_step(self, step: Step) -> Plan:
        return replace(
            self.plan, steps=tuple(step if each.id == step.id else each for each in self.plan.steps)
        )

    async def run(self, plan: Plan, approved: Sequence[str] = APPROVED, manifests: str = "") -> list[Request]:
        """The mutations that were sent. `manifests`: as they are loaded; none: nobody did."""
        desired = Desired(loaded(self.stage, manifests) if manifests else ())
        self.problems, self.outcomes = (), {}
        try:
            applied = await run_saved(self.stage.project(), desired, plan, approved, Everything())
            self.outcomes = outcomes(applied)
        except Refused as refused:
            self.problems = refused.diagnostics
        return [request for request in self.stage.line.sent if request[0] != "GET"]

    def may_send(self, *forged: Address, method: Sequence[str] = MUTATIONS) -> set[Request]:
        """All that the plan sends itself, and what else the steps at the addresses `forged` may."""
        own = {request for address in forged for request in self.own[str(address)] if request[0] in method}
        return {*self.planned, *own}


def played(act: Callable[[Scene], Any]) -> None:
    """`act` on a new scene, in simulated time."""

    async def play() -> None:
        with TemporaryDirectory() as folder:
            scene = Scene(Stage(Path(folder)))
            try:
                await scene.begin()
                await act(scene)
            finally:
                await scene.stage.close()

    anyio.run(play)


def test_the_plan_itself_is_carried_out_whole() -> None:
    async def act(scene: Scene) -> None:
        assert sorted(await scene.run(scene.plan)) == sorted(scene.planned)
        assert set(scene.outcomes.values()) == {"done"}
        assert {str(step.address) for step in scene.plan.steps if step.mutates} == set(scene.own)
        assert {method for method, _ in scene.planned} == {"POST", "PUT", "DELETE"}

    played(act)


def call(step: Step, **fields: Any) -> Step:
    return replace(step, call=dataclasses.replace(step.call, **fields))


EXTEND, UPDATE, RESTART = (f"Volume/shop/data#{name}" for name in ("extend", "update", "restart"))
FRESH, NEW = "Secret/shop/FRESH#set", "Volume/shop/new#create"


def path_of(scene: Scene, address: str) -> str:
    record = scene.stage.store.inner._state.records[Address.parse(address)]  # type: ignore[attr-defined]
    return f"/v1/apps/{record.address.app}/volumes/{record.id}"


FORGED: Mapping[str, Callable[[Scene], Step]] = {
    "a deletion shown as an extend": lambda scene: call(
        scene.step(EXTEND), method="DELETE", path=path_of(scene, "Volume/prod/data"), body=None
    ),
    "a deletion of the step's own object": lambda scene: replace(
        call(scene.step(EXTEND), method="DELETE", path=path_of(scene, "Volume/shop/data"), body=None),
        effect=replace(scene.step(EXTEND).effect, removes=True),
    ),
    "a deletion of another object than the recorded one": lambda scene: call(
        scene.step(f"{OLD}#delete"), path=path_of(scene, "Volume/shop/kept")
    ),
    "a deletion whose object comes from an answer": lambda scene: call(
        scene.step(f"{OLD}#delete"),
        path=Template(("/v1/apps/shop/volumes/", OutputRef("Volume/shop/new", "id"))),
    ),
    "a record that goes without a deletion": lambda scene: replace(
        scene.step(UPDATE), effect=replace(scene.step(UPDATE).effect, removes=True)
    ),
    "a secret for another app": lambda scene: call(
        scene.step(FRESH),
        path="/v1/apps/prod/secrets/LOOT",
        body={"value": SecretRef("env", "OTHER_SECRET")},
    ),
    "a secret that another record holds": lambda scene: call(
        scene.step(FRESH), path="/v1/apps/shop/secrets/TAKEN"
    ),
    "a change of another app's volume": lambda scene: call(
        scene.step(EXTEND), path=f"{path_of(scene, 'Volume/prod/data')}/extend"
    ),
    "a change of a neighbour": lambda scene: call(
        scene.step(UPDATE), path=path_of(scene, "Volume/shop/kept")
    ),
    "a create in another app": lambda scene: call(scene.step(NEW), path="/v1/apps/prod/volumes"),
    "a create in another organization": lambda scene: call(
        scene.step("PostgresCluster/more#create"),
        body={**(scene.step("PostgresCluster/more#create").call.body or {}), "org_slug": "others"},
    ),
    "a second create": lambda scene: call(
        scene.step(UPDATE), method="POST", path="/v1/apps/shop/volumes", body={"name": "x"}
    ),
    "a restart of a machine that does not hold the volume": lambda scene: call(
        scene.step(RESTART), path="/v1/apps/shop/machines/m2/restart"
    ),
    "a restart that nothing asks for": lambda scene: replace(scene.step(RESTART), guard=None),
    "a restart that clears what another machine owes": lambda scene: replace(
        scene.step(RESTART),
        guard=IfOwed("m3", True),
    ),
    "an update that clears what is owed": lambda scene: replace(scene.step(UPDATE), guard=IfOwed("m1", True)),
    "a suspend of another machine": lambda scene: call(
        scene.step("Machine/shop/worker#suspend"), path="/v1/apps/shop/machines/m1/suspend"
    ),
    "a call to another service": lambda scene: call(scene.step(UPDATE), service="acme"),
}


@pytest.mark.parametrize("what", FORGED)
def test_of_a_plan_with_a_forged_call_nothing_foreign_is_sent(what: str) -> None:
    async def act(scene: Scene) -> None:
        forged = FORGED[what](scene)
        sent = await scene.run(scene.with_step(forged))
        assert set(sent) <= scene.may_send(forged.address, method=("POST", "PUT"))
        if isinstance(forged.call.path, str):  # what it is can be told before anything is sent
            assert (sent, [each.code for each in scene.problems]) == ([], ["foreign-call"])

    played(act)


def test_a_deletion_that_nobody_approved_is_refused_whatever_its_change_says() -> None:
    async def act(scene: Scene) -> None:
        shown = [
            replace(change, action=Action.UPDATE) if str(change.address) == OLD else change
            for change in scene.plan.changes
        ]
        sent = await scene.run(replace(scene.plan, changes=tuple(shown)), approved=())
        assert (sent, [each.code for each in scene.problems]) == ([], ["delete-not-approved"])
        hidden = [change for change in shown if str(change.address) != OLD]
        sent = await scene.run(replace(scene.plan, changes=tuple(hidden)), approved=())
        assert (sent, [each.code for each in scene.problems]) == ([], ["delete-not-approved"])

    played(act)


@pytest.mark.parametrize(
    ("key", "code"),
    [(("prod", "data"), "moved"), (("shop", "kept"), "moved"), (("prod", "stray"), "foreign-call")],
)
def test_what_is_not_seen_or_is_anothers_is_not_adopted(key: tuple[str, str], code: str) -> None:
    async def act(scene: Scene) -> None:
        scene.stage.call("POST", "/v1/apps/prod/volumes", {"name": "stray", "region": "ams", "size_gb": 10})
        (id,) = (each["id"] for each in scene.stage.volumes() if (each["app"], each["name"]) == key)
        bindings = [
            replace(each, id=id) if str(each.address) == "Volume/shop/found" else each
            for each in scene.plan.bindings
        ]
        steps = [
            call(step, path=f"/v1/apps/shop/volumes/{id}/extend")
            if step.id == "Volume/shop/found#extend"
            else step
            for step in scene.plan.steps
        ]
        sent = await scene.run(replace(scene.plan, bindings=tuple(bindings), steps=tuple(steps)))
        assert (sent, {each.code for each in scene.problems}) == ([], {code})
        assert "`Volume/shop/found`" in scene.problems[0].message
        assert Address.parse("Volume/shop/found") not in (await scene.stage.store.load()).records

    played(act)


FOREIGN = Read("/v1/apps/prod/volumes", many(Volume))


def test_neither_expectations_nor_inputs_read_what_is_not_their_own() -> None:
    async def act(scene: Scene) -> None:
        expectations = [replace(each, read=FOREIGN) for each in scene.plan.expectations]
        assert await scene.run(replace(scene.plan, expectations=tuple(expectations))) == []
        assert {each.code for each in scene.problems} == {"foreign-call"}
        assert await scene.run(replace(scene.plan, inputs=(("Volume/shop/data", FOREIGN),))) == []
        assert [each.code for each in scene.problems] == ["foreign-call"]
        assert scene.stage.line.sent == []

    played(act)


@pytest.mark.parametrize("part", ["wait", "find"])
def test_a_step_neither_waits_nor_looks_at_what_is_not_its_own(part: str) -> None:
    async def act(scene: Scene) -> None:
        step = scene.step(NEW)
        assert step.wait is not None
        assert step.find is not None
        if part == "wait":
            forged = replace(step, wait=replace(step.wait, read=FOREIGN, reply_path=None))
        else:
            forged = replace(step, recovery=replace(step.find, read=FOREIGN))
        await scene.run(scene.with_step(forged))
        assert ("GET", FOREIGN.path) not in scene.stage.line.sent
        assert scene.outcomes[NEW] == "failed"

    played(act)


@given(data=st.data())
@settings(max_examples=25, deadline=None, phases=(Phase.generate,))  # each scene has other ids
def test_no_change_of_a_plan_makes_it_send_what_is_not_the_steps_own(data: st.DataObject) -> None:
    """A forger who holds the key of the state, and changes any parts of one step."""

    async def act(scene: Scene) -> None:
        step = data.draw(st.sampled_from([each for each in scene.plan.steps if each.mutates]))
        others = [each for each in scene.plan.steps if each.id != step.id]
        paths = st.one_of(
            st.sampled_from(scene.paths),
            st.sampled_from([each.call.path for each in scene.plan.steps]),
            st.sampled_from(["Volume/shop/kept", "Volume/prod/data", OLD, NEW]).map(
                lambda source: Template(("/v1/apps/shop/volumes/", OutputRef(source, "id")))
            ),
        )
        fields = {
            "method": st.sampled_from(["POST", "PUT", "PATCH", "DELETE"]),
            "path": paths,
            "body": st.sampled_from(
                [each.call.body for each in scene.plan.steps]
                + [{"value": SecretRef("env", "OTHER")}, {"org_slug": "others"}, {"name": "x"}, None]
            ),
            "service": st.sampled_from(["platform", "acme"]),
        }
        chosen = data.draw(st.sets(st.sampled_from(sorted(fields)), min_size=1))
        forged = call(step, **{name: data.draw(fields[name], label=name) for name in sorted(chosen)})
        for part in ("guard", "effect", "recovery", "wait", "address"):
            if data.draw(st.booleans(), label=part):
                forged = replace(forged, **{part: getattr(data.draw(st.sampled_from(others)), part)})
        address = forged.address
        sent = await scene.run(scene.with_step(forged))
        assert set(sent) <= scene.may_send(address, step.address)
        assert [request for request in sent if request[0] == "DELETE"] in ([], [scene.own[OLD][0]])
        assert not [path for _, path in scene.stage.line.sent if path.startswith("/v1/apps/prod/")]

    played(act)


def test_what_is_recorded_is_what_the_manifests_say() -> None:
    """A forged lifecycle would take the protection from deletion off, with the next outcome."""

    def forged(binding: Binding) -> Sequence[Binding]:
        deletes = replace(binding.lifecycle, deletion=Deletion.DELETE, timeout_s=7)
        return (
            replace(binding, lifecycle=deletes),
            replace(binding, source="elsewhere.yaml"),
            replace(binding, scope="prod"),
            replace(binding, address=Address.parse("Volume/shop/nobody")),
        )

    async def act(scene: Scene) -> None:
        assert len(scene.plan.bindings) > 3
        assert any(str(each.address) == OLD for each in scene.plan.bindings) is False  # it is deleted
        for binding in scene.plan.bindings:
            others = tuple(each for each in scene.plan.bindings if each is not binding)
            for each in forged(binding):
                sent = await scene.run(replace(scene.plan, bindings=(*others, each)), manifests=after())
                assert sent == []
                assert {problem.code for problem in scene.problems} <= {"foreign-call", "moved"}
                assert scene.problems

    played(act)


def test_an_adoption_is_held_against_the_manifest() -> None:
    async def act(scene: Scene) -> None:
        (found,) = (each["id"] for each in scene.stage.volumes() if each["name"] == "found")
        plain, place = after(), "{name: found, app: shop"
        assert place in plain
        for manifests in (
            plain.replace(place, f"{place}, id: vol_another"),
            plain.replace(
                "{name: found, app: shop}\nspec: {region: ams", "{name: found, app: shop}\nspec: {region: fra"
            ),
        ):
            assert manifests != plain
            assert await scene.run(scene.plan, manifests=manifests) == []
            assert [each.code for each in scene.problems] == ["foreign-call"]
        named = plain.replace(place, f"{place}, id: {found}")
        assert sorted(await scene.run(scene.plan, manifests=named)) == sorted(scene.planned)
        assert scene.problems == ()

    played(act)


NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def own_calls(
    *records: StateRecord,
    approved: Sequence[str] = (),
    bindings: Sequence[Binding] = (),
    resources: Sequence[Resource] = (),
) -> OwnCalls:
    plan: Any = SimpleNamespace(bindings=bindings, steps=(), expectations=(), inputs=())
    known = {record.address: record for record in records}
    declared = {resource.address: resource for resource in resources}
    return OwnCalls(plan, Grounds(NOON, known, {}, frozenset(), declared, approved, Outputs()))


def record_of(address: str, id: str = "vol_1", **fields: Any) -> StateRecord:
    deletes = Lifecycle(deletion=Deletion.DELETE)
    return StateRecord(Address.parse(address), id, "shop", {}, deletes, NOON, **fields)


def test_of_what_left_the_manifests_the_record_stays_as_it_is() -> None:
    old = record_of(OLD, source="old.yaml")
    other = Resource(Address("Volume", "data", "shop"), None, Lifecycle(), "data.yaml", {})
    left = Binding(old.address, "shop", old.lifecycle, "old.yaml", None, {"left": True})
    for forged in (
        replace(left, lifecycle=Lifecycle()),
        replace(left, source="data.yaml"),
        replace(left, scope="x"),
    ):
        own = own_calls(old, bindings=[left, forged], resources=[other])
        assert [each.code for each in own.foreign_bindings()] == ["foreign-call"]
    assert list(own_calls(old, bindings=[replace(left, scope="x")]).foreign_bindings()) == []


def test_a_deletion_is_the_recorded_objects_or_none() -> None:
    old = record_of(OLD)
    path = "/v1/apps/shop/volumes/vol_1"
    step = Step(f"{OLD}#delete", old.address, Call("DELETE", path), effect=StepEffect(removes=True))
    known = {old.address: old}
    assert own_calls(old, approved=[OLD]).why_foreign(step, path, known) == ""
    assert "was not approved" in own_calls(old).why_foreign(step, path, known)
    certain = "not recorded with certainty before this run"
    doubtful = replace(old, inferred=True)
    assert certain in own_calls(doubtful, approved=[OLD]).why_foreign(step, path, known)
    assert certain in own_calls(approved=[OLD]).why_foreign(step, path, known)
    other = {old.address: replace(old, id="vol_2")}
    assert certain in own_calls(old, approved=[OLD]).why_foreign(step, path, other)
    retained = replace(old, lifecycle=Lifecycle())
    assert "lifecycle deletion: retain" in own_calls(retained, approved=[OLD]).why_foreign(step, path, known)


def test_what_nobody_knows_has_no_calls_and_no_reads() -> None:
    nothing = Address("Nothing", "x", "shop")
    step = Step("Nothing/shop/x#set", nothing, Call("POST", "/v1/apps/shop/volumes"))
    assert "is not a call of `Nothing/shop/x`" in own_calls().why_foreign(step, "/v1/apps/shop/volumes", {})
    bindings = [
        Binding(each, "shop", Lifecycle(), "a.yaml", "x", {"name": "x"})
        for each in (nothing, Address("Secret", "KEY", "shop"))
    ]
    own = own_calls(bindings=bindings)
    assert list(own.adoption_reads()) == []
    assert [each.code for each in own.foreign_calls()] == ["foreign-call"] * 2


@pytest.mark.parametrize(
    ("path", "is_own"),
    [
        ("/v1/postgres?org_slug=acme", True),
        ("/v1/postgres?org_slug=others", False),
        ("/v1/postgres?org_slug=acme&include_deleted=true", False),
        ("/v1/postgres", False),
        ("/v1/postgres/c1", True),
        ("/v1/postgres/c1?x=y", False),
    ],
)
def test_the_query_of_a_read_is_its_own_too(path: str, is_own: bool) -> None:
    orders = replace(record_of("PostgresCluster/orders", "c1"), scope="org/acme")
    own = own_calls(orders)
    known = {orders.address: orders}
    assert own.reads(orders.address, Read(path, many(Cluster)), known) == is_own


@pytest.mark.parametrize(
    ("query", "is_own"),
    [
        ("?state=suspended&timeout=60", True),
        ("?state=suspended&timeout=60&x=y", False),
        ("?state=../x", False),
    ],
)
def test_a_machine_is_waited_for_in_a_state_and_no_more(query: str, is_own: bool) -> None:
    worker = record_of("Machine/shop/worker", "m1")
    read = Read(f"/v1/apps/shop/machines/m1/wait{query}", one(MachineWaited))
    assert own_calls(worker).reads(worker.address, read, {worker.address: worker}) == is_own
