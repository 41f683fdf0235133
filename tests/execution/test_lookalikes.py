"""Equal objects beside ours that nobody owns: named until a person says that they are meant to be there."""

from collections.abc import Sequence

import pytest

from reconciler.core.errors import ReconcilerError
from reconciler.core.model import Address
from reconciler.drift.find import find_drift
from reconciler.execution.decisions import Actor
from reconciler.planning.declared import Desired
from reconciler.project.plan import make_plan
from reconciler.project.records import forget, move
from reconciler.project.resolve import dismiss
from reconciler.state.store import Event
from tests.execution.stage import SETTLE_S, Stage, cluster, loaded, outcomes, plan, volume

DATA = Address.parse("Volume/shop/data")


async def named(stage: Stage, manifests: str = "") -> Sequence[str]:
    """What plan and drift say of lookalikes, which must be the same."""
    manifests = manifests or volume()
    planned = await plan(stage, manifests)
    assert planned.steps == ()
    drifted = (await find_drift(stage.project(), Desired(loaded(stage, manifests)))).plan
    told = [
        [each.message for each in found.diagnostics if each.code == "lookalike"]
        for found in (planned, drifted)
    ]
    assert told[0] == told[1]
    return told[0]


async def test_what_takes_effect_after_it_did_not_land_is_named(stage: Stage) -> None:
    stage.fault(method="POST", path="/v1/apps/shop/volumes", action="drop_before", times=1)
    applied = await stage.apply(volume())
    assert outcomes(applied) == {"Volume/shop/data#create": "done"}  # sent again, once it had not landed
    assert await named(stage) == []
    await stage.time.sleep(10 * SETTLE_S)
    late = stage.make_volume()
    ours = (await stage.record()).id
    (told,) = await named(stage)
    assert told.startswith(
        f"beside `Volume/shop/data` ({ours}) there is {late}, with the same name and region"
    )
    assert not (await stage.apply(volume())).results
    assert late in (await named(stage))[0]  # and on, until somebody decides


@pytest.mark.parametrize(
    ("many", "words"),
    [
        (1, "there is {0}, with"),
        (2, "there are {0} and {1}, with"),
        (3, "there are {0}, {1} and {2}, with"),
        (7, "there are {0}, {1}, {2}, {3}, {4} and 2 more, with"),
    ],
)
async def test_several_are_named_in_one_sentence(stage: Stage, many: int, words: str) -> None:
    await stage.apply(volume())
    body = {"name": "data", "region": "ams", "require_unique_zone": False}
    ids = sorted(stage.call("POST", "/v1/apps/shop/volumes", body)["id"] for _ in range(many))
    (told,) = await named(stage)
    assert words.format(*ids) in told


async def test_a_dismissed_one_is_not_named_as_long_as_the_record_is_there(stage: Stage) -> None:
    await stage.apply(volume())
    first = stage.make_volume()
    committed: list[object] = []
    commit = stage.store.commit

    async def watching(lease: object, entries: object, *rest: object, **more: object) -> object:
        committed.extend((each.event, each.address, each.data) for each in entries)  # type: ignore[attr-defined]
        return await commit(lease, entries, *rest, **more)  # type: ignore[arg-type]

    stage.store.commit = watching  # type: ignore[method-assign,assignment]
    assert "will not be named any more" in await dismiss(stage.project(), DATA, [first])
    assert await named(stage) == []
    assert committed == [(Event.DECIDED, DATA, {"dismissed": [first]})]
    second = stage.make_volume()
    (told,) = await named(stage)
    assert second in told
    assert first not in told
    await dismiss(stage.project(), DATA, [second])
    # It goes where the record goes, and stays over changes of it.
    await stage.apply(volume(spec="region: ams, size_gb: 20"))
    target = Address.parse("Volume/shop/files")
    await move(stage.store, DATA, target, Actor(stage.time, "test", run="r8"))
    assert await named(stage, volume("files", "name: data, region: ams, size_gb: 20")) == []
    await forget(stage.store, target, Actor(stage.time, "test", run="r9"))
    planned = await plan(stage, volume())
    assert [each.code for each in planned.diagnostics] == ["ambiguous-match"]


async def test_only_what_is_there_and_nobodys_is_dismissed(stage: Stage) -> None:
    await stage.apply(volume() + volume("logs"))
    ours, other = (await stage.record()).id, (await stage.record("Volume/shop/logs")).id
    for id, why in (
        (ours, "is recorded as `Volume/shop/data`"),
        (other, "is recorded as `Volume/shop/logs`"),
        ("vol_none", "vol_none does not exist on the platform"),
    ):
        with pytest.raises(ReconcilerError, match=why):
            await dismiss(stage.project(), DATA, [id])
    with pytest.raises(ReconcilerError, match="Volume/shop/nothing"):
        await dismiss(stage.project(), Address.parse("Volume/shop/nothing"), [ours])
    assert "dismissed" not in (await stage.record()).applied


# --- clusters, which are read one by one ---

ORDERS = Address.parse("PostgresCluster/orders")
LIST = "/v1/postgres"


def twin(stage: Stage, name: str = "orders", org_slug: str = "personal") -> str:
    body = {"org_slug": org_slug, "name": name, "plan": "starter", "region": "ams"}
    found: str = stage.call("POST", LIST, body)["data"]["id"]
    return found


def many_clusters(count: int) -> str:
    return "".join(cluster(name=f"c{number}") for number in range(count))


def gets(stage: Stage) -> Sequence[str]:
    """The paths of the GETs since the last call of this."""
    paths = [path for method, path in stage.line.sent if method == "GET"]
    stage.line.sent.clear()
    return paths


async def test_a_late_twin_of_a_recorded_cluster_is_named_until_it_is_dismissed(stage: Stage) -> None:
    stage.capabilities = frozenset({"postgres.list"})
    await stage.apply(cluster())
    assert await named(stage, cluster()) == []
    twin(stage, name="reports")
    late = twin(stage)
    ours = (await stage.record("PostgresCluster/orders")).id
    (told,) = await named(stage, cluster())
    assert told.startswith(f"beside `PostgresCluster/orders` ({ours}) there is {late}, with the same name, ")
    assert not (await stage.apply(cluster())).results
    await dismiss(stage.project(), ORDERS, [late])
    assert await named(stage, cluster()) == []


async def test_a_cluster_that_takes_effect_after_it_did_not_land_is_named(stage: Stage) -> None:
    stage.capabilities = frozenset({"postgres.list"})
    stage.fault(method="POST", path=LIST, action="drop_before", times=1)
    applied = await stage.apply(cluster())
    assert outcomes(applied)["PostgresCluster/orders#create"] == "done"  # sent again
    late = twin(stage)
    assert late in (await named(stage, cluster()))[0]


async def test_the_list_of_an_organization_is_read_once_however_many_clusters_it_has(stage: Stage) -> None:
    await stage.apply(many_clusters(50))
    gets(stage)
    await plan(stage, many_clusters(50))
    assert len(gets(stage)) == 50  # the list is not documented: without the capability nobody reads it
    stage.capabilities = frozenset({"postgres.list"})
    late = twin(stage, name="c7")
    manifests = many_clusters(50)
    planned = await plan(stage, manifests)
    asked = gets(stage)
    assert (len(asked), asked.count(LIST)) == (51, 1)
    await find_drift(stage.project(), Desired(loaded(stage, manifests)))
    asked = gets(stage)
    assert (len(asked), asked.count(LIST)) == (51, 1)
    (told,) = [each.message for each in planned.diagnostics]
    assert late in told
    targeted = Desired(loaded(stage, manifests), targets=(Address.parse("PostgresCluster/c7"),))
    for diagnostics in (
        (await make_plan(stage.project(), targeted)).diagnostics,
        (await find_drift(stage.project(), targeted)).plan.diagnostics,
    ):
        assert [each.message for each in diagnostics] == [told]
    elsewhere = Desired(loaded(stage, manifests), targets=(Address.parse("PostgresCluster/c8"),))
    assert (await make_plan(stage.project(), elsewhere)).diagnostics == ()


async def test_a_cluster_that_a_new_manifest_may_take_is_not_named_beside_another(stage: Stage) -> None:
    stage.capabilities = frozenset({"postgres.list"})
    await stage.apply(cluster())
    both = cluster() + cluster().replace("{name: orders}", "{name: other}").replace(
        "org_slug", "name: orders, org_slug"
    )
    twin(stage)
    planned = await plan(stage, both)
    assert [each.code for each in planned.diagnostics if each.code == "lookalike"] == []


async def test_a_list_that_cannot_be_read_is_told_and_stops_nothing(stage: Stage) -> None:
    stage.capabilities = frozenset({"postgres.list"})
    await stage.apply(many_clusters(2))
    stage.fault(method="GET", path=LIST, action="status", status=403, times=2)
    planned = await plan(stage, many_clusters(2))
    drifted = (await find_drift(stage.project(), Desired(loaded(stage, many_clusters(2))))).plan
    for found in (planned, drifted):
        (told,) = found.diagnostics
        assert (told.code, told.severity.value) == ("unreadable", "warning")
        assert told.message.startswith("cannot look for unowned objects beside 2 recorded objects: GET ")
        assert "/v1/postgres?org_slug=personal was answered 403" in told.message
    assert (planned.unchanged, drifted.unchanged) == (2, 2)
