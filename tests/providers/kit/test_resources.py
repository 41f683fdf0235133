"""Ordered once, made once: whoever asks how often, in whatever worker, with whatever in between."""

from pathlib import Path

import anyio
import pytest

from reconciler.providers.kit import Declined, Provisioned, Report
from tests.providers.kit.stage import Counting, StageClock, error_of, settle, staged


async def test_the_same_id_again_gives_the_same_answer(store: Path) -> None:
    functions = Counting(provisioned=Provisioned({}, name="other-name", platform_app_name="gateway"))
    async with staged(store, functions) as stage:
        first, second = await stage.provision("a"), await stage.provision("a")
    assert (first.status, first.body) == (second.status, second.body)
    assert first.status == 201
    assert first.json["name"] == "other-name"
    assert first.json["platform_app_name"] == "gateway"
    async with staged(store, functions) as restarted:
        third = await restarted.provision("a")
    assert third.body == first.body


async def test_a_field_that_is_null_is_one_that_is_left_out(store: Path) -> None:
    async with staged(store, Counting()) as stage:
        first = await stage.provision("a")
        assert (await stage.provision("a", read_regions=None)).body == first.body


async def test_the_same_id_with_another_order_is_a_conflict_that_names_the_field(store: Path) -> None:
    functions = Counting()
    async with staged(store, functions) as stage:
        await stage.provision("a")
        reply = await stage.provision("a", primary_region="fra", name="x")
    assert reply.status == 409
    assert "`name`, `primary_region`" in error_of(reply)
    assert functions.calls == [("provision", "a")]


async def test_two_workers_that_are_asked_at_once_make_one_resource(store: Path) -> None:
    functions, clock, replies = Counting(gate=anyio.Event()), StageClock(), []
    async with staged(store, functions, clock) as one, staged(store, functions, clock) as other:

        async def ask(stage: object) -> None:
            replies.append(await stage.provision("a"))  # type: ignore[attr-defined]

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, one)
            tasks.start_soon(ask, other)
            await settle()
            assert functions.calls == [("provision", "a")]  # the other worker waits for its turn
            assert functions.gate is not None
            functions.gate.set()
            await settle()
            await clock.advance(1)
        rows = one.kit.store.rows("SELECT * FROM resources")
    assert len(rows) == 1
    assert [reply.status for reply in replies] == [201, 201]
    assert replies[0].body == replies[1].body


async def test_what_takes_long_is_answered_at_once_and_goes_on(store: Path) -> None:
    functions = Counting(gate=anyio.Event())
    async with staged(store, functions, answer_s=0.05) as stage:
        reply = await stage.provision("a")
        assert reply.status == 202
        assert reply.json == {"id": "a", "config": {}, "status": "provisioning"}
        assert (await stage.call("GET", "/extensions/a")).json["status"] == "provisioning"
        assert functions.gate is not None
        functions.gate.set()
        await settle()
        assert (await stage.call("GET", "/extensions/a")).json["status"] == "ready"
        again = await stage.provision("a")
        assert again.status == 201
        assert again.json["config"]["PASSWORD"]


async def test_a_provider_may_say_that_it_goes_on(store: Path) -> None:
    functions = Counting(provisioned=Provisioned({}, status="provisioning"), report=Report("provisioning"))
    async with staged(store, functions) as stage:
        reply = await stage.provision("a")
        assert reply.status == 201
        assert reply.json["status"] == "provisioning"
        assert reply.json["config"]["PASSWORD"]
        assert (await stage.call("GET", "/extensions/a")).json["status"] == "provisioning"
        functions.report = Report("ready", "standard")
        assert (await stage.call("GET", "/extensions/a")).json["status"] == "ready"


async def test_what_was_begun_is_ended_after_a_restart(store: Path) -> None:
    functions = Counting(gate=anyio.Event())
    async with staged(store, functions, answer_s=0.01) as stage:
        assert (await stage.provision("a")).status == 202
    assert functions.made == {}
    functions.gate = None
    async with staged(store, functions) as restarted:
        await settle()
        assert (await restarted.call("GET", "/extensions/a")).json["status"] == "ready"
    assert list(functions.made) == ["a"]


async def test_another_worker_ends_what_a_lost_one_had_begun(store: Path) -> None:
    functions, clock = Counting(gate=anyio.Event()), StageClock()
    async with staged(store, functions, clock) as living:
        async with staged(store, functions, clock, answer_s=0.01) as lost:
            assert (await lost.provision("a")).status == 202
        functions.gate = None
        await clock.advance(5)
        assert (await living.call("GET", "/extensions/a")).json["status"] == "ready"


async def test_a_failure_is_shown_and_may_be_tried_again(store: Path) -> None:
    functions = Counting(fails=Declined("no more room in ams"))
    async with staged(store, functions) as stage:
        refused = await stage.provision("a")
        assert (refused.status, error_of(refused)) == (422, "no more room in ams")
        shown = (await stage.call("GET", "/extensions/a")).json
        assert (shown["status"], shown["error"]) == ("error", "no more room in ams")
        functions.fails = None
        # Nothing was handed out yet: also another order may follow.
        assert (await stage.provision("a", primary_region="fra")).status == 201


async def test_the_text_of_an_unexpected_failure_stays_inside(store: Path) -> None:
    functions = Counting(fails=RuntimeError("password=hunter2"))
    async with staged(store, functions) as stage:
        reply = await stage.provision("a")
        assert reply.status == 500
        shown = await stage.call("GET", "/extensions/a")
        assert b"hunter2" not in reply.body + shown.body


async def test_a_configuration_that_changed_is_not_handed_out(store: Path) -> None:
    functions = Counting()
    async with staged(store, functions) as stage:
        await stage.provision("a")
        functions.made["a"] = "another"
        assert (await stage.provision("a")).status == 500


async def test_the_providers_own_id_is_used_from_then_on(store: Path) -> None:
    functions = Counting(provisioned=Provisioned({}, id="db-77"))
    async with staged(store, functions) as stage:
        assert (await stage.provision("a")).json["id"] == "db-77"
        for id in ("db-77", "a"):
            assert (await stage.call("GET", f"/extensions/{id}")).json["id"] == "db-77"
        assert (await stage.call("DELETE", "/extensions/db-77")).status == 200
        assert (await stage.call("GET", "/extensions/a")).status == 404


async def test_an_update_takes_some_fields_or_all(store: Path) -> None:
    functions = Counting()
    async with staged(store, functions) as stage:
        first = await stage.provision("a")
        reply = await stage.call("PATCH", "/extensions/a", {"read_regions": ["fra", "nrt"]})
        assert reply.status == 200
        assert reply.json["read_regions"] == ["fra", "nrt"]
        assert functions.calls[-1] == ("update", "fra,nrt")
        shown = (await stage.call("GET", "/extensions/a")).json
        assert (shown["read_regions"], shown["primary_region"]) == (["fra", "nrt"], "ams")
        assert (await stage.provision("a")).body == first.body  # the first order, as it was
        assert (await stage.call("PATCH", "/extensions/a", {"read_regions": "fra"})).status == 422
        assert (await stage.call("PATCH", "/extensions/a", {"id": "b"})).status == 422


async def test_after_an_update_the_first_order_and_the_present_one_get_the_same_answer(store: Path) -> None:
    functions = Counting()
    async with staged(store, functions) as stage:
        first = await stage.provision("a")
        await stage.call("PATCH", "/extensions/a", {"read_regions": ["fra"]})
        present = await stage.provision("a", read_regions=["fra"])
        assert (present.status, present.body) == (201, first.body)
        assert (await stage.provision("a")).body == first.body
        neither = await stage.provision("a", read_regions=["nrt"])
        assert (neither.status, "`read_regions`" in error_of(neither)) == (409, True)
        shown = (await stage.call("GET", "/extensions/a")).json
        assert shown["read_regions"] == ["fra"]  # asking again changed nothing


async def test_an_update_of_the_name_is_shown(store: Path) -> None:
    functions = Counting()
    async with staged(store, functions) as stage:
        first = await stage.provision("a")
        reply = await stage.call("PATCH", "/extensions/a", {"name": "renamed"})
        assert (reply.status, reply.json["name"]) == (200, "renamed")
        assert (await stage.call("GET", "/extensions/a")).json["name"] == "renamed"
        for again in (await stage.provision("a"), await stage.provision("a", name="renamed")):
            assert again.json == {**first.json, "name": "renamed"}
    async with staged(store, functions) as restarted:
        assert (await restarted.call("GET", "/extensions/a")).json["name"] == "renamed"


async def test_the_name_that_the_provider_gave_is_not_changed_by_an_update(store: Path) -> None:
    functions = Counting(provisioned=Provisioned({}, name="their-own"))
    async with staged(store, functions) as stage:
        await stage.provision("a")
        for name in ("their-own", "renamed"):
            reply = await stage.call("PATCH", "/extensions/a", {"name": name})
            assert (reply.status, reply.json["name"]) == (200, "their-own")


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
async def test_an_unknown_id_is_not_found(store: Path, method: str) -> None:
    async with staged(store, Counting()) as stage:
        reply = await stage.call(method, "/extensions/none", {} if method == "PATCH" else None)
    assert (reply.status, error_of(reply)) == (404, "there is no such resource")


async def test_what_is_deleted_is_gone_and_may_be_ordered_again(store: Path) -> None:
    functions = Counting()
    async with staged(store, functions) as stage:
        await stage.provision("a")
        reply = await stage.call("DELETE", "/extensions/a")
        assert (reply.status, reply.json) == (200, {"id": "a", "status": "deleted"})
        assert (await stage.call("DELETE", "/extensions/a")).status == 404
        assert functions.made == {}
        assert (await stage.provision("a", primary_region="fra")).status == 201


async def test_a_deletion_that_failed_is_gone_on_with(store: Path) -> None:
    functions = Counting()
    async with staged(store, functions) as stage:
        await stage.provision("a")
        functions.fails = RuntimeError("not now")
        assert (await stage.call("DELETE", "/extensions/a")).status == 500
        assert (await stage.call("GET", "/extensions/a")).json["status"] == "deleting"
        assert (await stage.provision("a")).status == 409
    functions.fails = None
    async with staged(store, functions) as restarted:
        await settle()
        assert (await restarted.call("GET", "/extensions/a")).status == 404
    assert functions.made == {}


async def test_costs_have_a_path_of_their_own(store: Path) -> None:
    async with staged(store, Counting(), costs_path="/billing/daily") as stage:
        await stage.provision("a")
        reply = await stage.call("GET", "/billing/daily")
        assert reply.json == {"costs": [{"id": "a", "amount": "1.50", "currency": "USD", "per": "month"}]}
        assert (await stage.raw("GET", "/billing/daily")).status == 401
