"""An extension in simulated time: how often it is looked at, and what a second answer changes."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from itertools import count
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace

from reconciler.approvals.creates import Everything
from reconciler.cli.apply import exit_code
from reconciler.core.errors import Lost, SecretUnavailable
from reconciler.core.model import Address
from reconciler.core.steps import Call, Step
from reconciler.drift.find import find_drift
from reconciler.execution.decisions import Actor
from reconciler.execution.recorder import Recorder
from reconciler.planning.declared import Desired
from reconciler.project.apply import PlanRefused, apply, run_saved
from reconciler.project.plan import make_plan
from reconciler.project.project import Project
from reconciler.project.records import forget
from reconciler.project.run import Applied
from reconciler.secrets.sensitive import Sensitive
from reconciler.services.provider import provider_client
from reconciler.services.transport import Answer
from tests.execution.stage import Stage, Time, loaded, outcomes, secret, volume

EXTENSION = Address("Extension", "db", "shop")
PROVISION = "Extension/shop/db#provision"
MANIFESTS = """
apiVersion: reconciler/v1
kind: ExtensionProvider
metadata: {name: acme}
spec: {base_url: "https://acme.example", signing_secret_from: {env: ACME}}
---
apiVersion: reconciler/v1
kind: Extension
metadata: {name: db, app: shop}
spec: {provider: acme, organization_id: o, organization_name: O, user_id: u, user_email: e, user_role: admin}
"""


@dataclasses.dataclass
class Acme:
    """A provider as a Transport. `ids`: of the answers to POST, in turn; `ready_after`: so many looks."""

    time: Time
    ids: list[str] = dataclasses.field(default_factory=lambda: ["res_1"])
    ready_after: int = 0
    cut: int = 0
    pages: int = 0  # so many POSTs are answered by a proxy
    key: str = "KEY"
    looks: list[float] = dataclasses.field(default_factory=list)
    posted: list[Mapping[str, object]] = dataclasses.field(default_factory=list)

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, deadline_s: float
    ) -> Answer:
        if method == "GET":
            self.looks.append(self.time.elapsed_s)
            status = "ready" if len(self.looks) > self.ready_after else "provisioning"
            return Answer(200, {}, json.dumps({"status": status}).encode())
        assert (method, urlsplit(url).path) == ("POST", "/extensions")
        self.posted.append(json.loads(body or b""))
        if self.cut:
            self.cut -= 1
            raise Lost("cut")
        if self.pages:
            self.pages -= 1
            return Answer(200, {"content-type": "text/html"}, b"<html>ok</html>")
        id = self.ids.pop(0) if len(self.ids) > 1 else self.ids[0]
        return Answer(201, {}, json.dumps({"id": id, "config": {self.key: "value-of-key"}}).encode())

    async def aclose(self) -> None:
        """Nothing is open."""


def missing() -> Sensitive:
    raise SecretUnavailable("the environment variable `ACME` is not set")


def project_with(
    stage: Stage, acme: Acme, secret: Callable[[], Sensitive] = lambda: Sensitive("secret")
) -> Project:
    nonces = count()
    client = provider_client(
        "acme",
        acme,
        "https://acme.example",
        secret,
        stage.time,
        new_nonce=lambda: str(next(nonces)),
        jitter=lambda: 1.0,
    )
    return dataclasses.replace(stage.project(), providers={"acme": client})


async def applied_with(stage: Stage, acme: Acme, manifests: str = MANIFESTS) -> Applied:
    return await apply(
        project_with(stage, acme),
        Desired(loaded(stage, manifests)),
        approve=lambda plan: True,
        approved_creates=Everything(),
    )


async def test_it_is_looked_at_every_two_seconds(stage: Stage) -> None:
    acme = Acme(stage.time, ready_after=5)
    await applied_with(stage, acme)
    assert [later - acme.looks[0] for later in acme.looks] == [0, 2, 4, 6, 8, 10]


async def test_the_deadline_leaves_it_pending_and_the_next_run_posts_the_same_id(stage: Stage) -> None:
    acme = Acme(stage.time, ready_after=10_000)
    assert outcomes(await applied_with(stage, acme)) == {
        PROVISION: "pending",
        "Extension/shop/db#secrets": "skipped",
    }
    assert stage.time.elapsed_s <= 1800
    acme.ready_after = 0
    assert outcomes(await applied_with(stage, acme)) == {
        PROVISION: "done",
        "Extension/shop/db#secrets": "done",
    }
    assert acme.posted[0]["id"] == acme.posted[1]["id"]


async def test_a_second_answer_with_another_id_is_followed(stage: Stage) -> None:
    acme = Acme(stage.time, ids=["res_1", "res_2"])
    stage.fault(method="POST", path="/v1/apps/shop/secrets/KEY", action="status", status=422)
    await applied_with(stage, acme)
    assert (await stage.record("Extension/shop/db")).id == "res_1"
    await applied_with(stage, acme)
    record = await stage.record("Extension/shop/db")
    assert (record.id, record.applied["secrets"]) == ("res_2", "set")


async def test_what_has_no_record_any_more_reaches_nothing(stage: Stage) -> None:
    lease = await stage.store.lease(["shop"], "test")
    recorder = Recorder(stage.store, lease, "run", stage.time, {})
    address = Address("Extension", "db", "shop")
    await recorder.reached(Step("x", address, Call("GET", "/extensions/x")), {"secrets": "set"})
    await stage.store.release(lease)
    assert (await stage.store.load()).records == {}


async def test_a_lost_post_is_repeated_once_a_late_one_could_not_arrive_any_more(stage: Stage) -> None:
    acme = Acme(stage.time, cut=1)
    await applied_with(stage, acme)
    assert len(acme.posted) == 2
    assert stage.time.elapsed_s >= stage.limits.repeat_after_s
    assert await stage.open_steps() == []


async def test_a_lost_secret_is_in_doubt_until_it_is_set_again(stage: Stage) -> None:
    acme = Acme(stage.time)
    stage.fault(method="POST", path="/v1/apps/shop/secrets/KEY", action="drop_after", times=2)
    applied = await applied_with(stage, acme)
    assert outcomes(applied)["Extension/shop/db#secrets"] == "pending"
    assert (await stage.record("Extension/shop/db")).applied["secrets"] == "pending"
    assert outcomes(await applied_with(stage, acme))["Extension/shop/db#secrets"] == "done"


@pytest.mark.parametrize("id", ["../../v1?x#y", "res_1$(touch pwn)", "", "x" * 256])
async def test_an_answer_with_an_unusable_id_is_reported_and_not_asked_for_again(
    stage: Stage, id: str
) -> None:
    acme = Acme(stage.time, ids=[id])
    manifests = f"{MANIFESTS}---\n{volume()}"
    first = await applied_with(stage, acme, manifests)
    assert outcomes(first)[PROVISION] == "failed"
    assert (await stage.record("Volume/shop/data")).id.startswith("vol_")
    (told,) = first.notices
    for _ in range(2):
        with pytest.raises(PlanRefused) as refused:
            await applied_with(stage, acme, manifests)
        (problem,) = refused.value.diagnostics
        assert problem == replace(told, addresses=("Extension/shop/db",))
    assert (told.code, told.span and told.span.line) == ("bad-id", 9)
    assert "`reconcile state forget Extension/shop/db`" in told.help
    assert id not in told.message or not id
    assert len(acme.posted) == 2  # as after any lost answer


async def test_an_answer_that_is_mended_at_once_is_taken(stage: Stage) -> None:
    acme = Acme(stage.time, ids=["res 1", "res_1"])
    first = await applied_with(stage, acme)
    assert (outcomes(first)[PROVISION], first.notices) == ("done", ())
    assert (await applied_with(stage, acme)).plan.diagnostics == ()
    assert len(acme.posted) == 2


async def test_after_a_decision_the_same_order_is_posted_again(stage: Stage) -> None:
    acme = Acme(stage.time, ids=["res 1", "res 1", "res_1"])
    await applied_with(stage, acme)
    await forget(stage.store, EXTENSION, Actor(stage.time, "test", run="run-x"))
    assert outcomes(await applied_with(stage, acme))[PROVISION] == "done"
    record = await stage.record("Extension/shop/db")
    assert (record.id, record.applied["secrets"]) == ("res_1", "set")
    assert len({order["id"] for order in acme.posted}) == 1


async def test_drift_names_an_answer_with_an_id_that_no_path_may_hold(stage: Stage) -> None:
    acme = Acme(stage.time, ids=["res 1"])
    await applied_with(stage, acme)
    found = (await find_drift(project_with(stage, acme), Desired(loaded(stage, MANIFESTS)))).plan
    assert [problem.code for problem in found.diagnostics] == ["bad-id"]


async def test_what_is_no_answer_of_the_provider_is_asked_for_again(stage: Stage) -> None:
    """A proxy's page says nothing of ids."""
    acme = Acme(stage.time, pages=1)
    assert outcomes(await applied_with(stage, acme))[PROVISION] == "done"
    assert len(acme.posted) == 2


def with_keys(keys: str) -> str:
    return MANIFESTS.replace("user_role: admin", f"user_role: admin, config_keys: {keys}")


async def test_a_secret_that_was_set_by_hand_is_not_overwritten(stage: Stage) -> None:
    stage.capabilities = frozenset({"secrets.list"})
    stage.call("POST", "/v1/apps/shop/secrets/KEY", {"value": "by hand"})
    before = stage.call("GET", "/v1/apps/shop/secrets", None)
    acme = Acme(stage.time)
    refused = await applied_with(stage, acme)
    (result,) = [each for each in refused.results if each.outcome == "failed"]
    assert "app `shop` already has `KEY`, which is in no record; no secret is set" in result.error
    assert "`config_keys`" in result.error
    assert stage.call("GET", "/v1/apps/shop/secrets", None) == before
    # A prefix does not name it, its name does.
    assert "failed" in outcomes(await applied_with(stage, acme, with_keys("['K*']"))).values()
    assert stage.call("GET", "/v1/apps/shop/secrets", None) == before
    done = await applied_with(stage, acme, with_keys("[KEY]"))
    assert set(outcomes(done).values()) == {"done"}
    assert stage.call("GET", "/v1/apps/shop/secrets", None) != before
    assert "config.KEY" in (await stage.record("Extension/shop/db")).applied


@pytest.mark.parametrize("key", ["LD_PRELOAD", "NEW_KEY", "KEY"])
async def test_an_ignored_key_stops_nothing_and_is_named_in_the_plan(stage: Stage, key: str) -> None:
    """One that is never set, one that `config_keys` does not name, one that was set by hand."""
    stage.capabilities = frozenset({"secrets.list"})
    stage.call("POST", "/v1/apps/shop/secrets/KEY", {"value": "by hand"})
    before = stage.call("GET", "/v1/apps/shop/secrets", None)
    ignored = with_keys(f"[OTHER], config_ignore: ['{key[:2]}*', X]")
    done = await applied_with(stage, Acme(stage.time, key=key), ignored)
    assert set(outcomes(done).values()) == {"done"}
    assert stage.call("GET", "/v1/apps/shop/secrets", None) == before
    (change,) = done.plan.changes
    assert f"ignored in its config: {key[:2]}*, X" in change.reason


async def test_what_an_extension_has_set_it_may_set_again(stage: Stage) -> None:
    stage.capabilities = frozenset({"secrets.list"})
    acme = Acme(stage.time)
    stage.fault(method="POST", path="/v1/apps/shop/secrets/KEY", action="drop_after", times=2)
    first = await applied_with(stage, acme)
    assert outcomes(first)["Extension/shop/db#secrets"] == "pending"
    assert "config.KEY" not in (await stage.record("Extension/shop/db")).applied  # and yet the app has it
    again = await applied_with(stage, acme)
    assert set(outcomes(again).values()) == {"done"}


async def test_a_list_that_cannot_be_read_leaves_the_secrets_unset(stage: Stage) -> None:
    stage.capabilities = frozenset({"secrets.list"})
    acme = Acme(stage.time)
    stage.fault(method="GET", path="/v1/apps/shop/secrets", action="status", status=403, times=50)
    refused = await applied_with(stage, acme)
    assert outcomes(refused)["Extension/shop/db#secrets"] == "failed"
    assert "POST /v1/apps/shop/secrets/KEY" not in stage.line.mutations


@pytest.mark.parametrize("recorded", [False, True])
async def test_a_missing_signing_secret_stops_only_what_needs_the_provider(
    stage: Stage, recorded: bool
) -> None:
    if recorded:
        await applied_with(stage, Acme(stage.time))
    desired = Desired(loaded(stage, MANIFESTS + volume()))
    plan = await make_plan(project_with(stage, Acme(stage.time)), desired)
    applied = await run_saved(project_with(stage, Acme(stage.time), missing), desired, plan, ())
    assert outcomes(applied) == {"Volume/shop/data#create": "done"}
    problem, *others = applied.plan.diagnostics
    assert (problem.code, [each.code for each in others]) == ("secret-source", ["not-in-plan"] * recorded)
    assert f"`{EXTENSION}`: the signing secret of ExtensionProvider/acme" in problem.message
    assert exit_code(applied) == 1


async def test_what_needs_an_extension_waits_for_its_signing_secret_too(stage: Stage) -> None:
    reading = secret("ID", "{template: '${Extension/shop/db:id}'}")
    desired = Desired(loaded(stage, MANIFESTS + reading + volume()))
    plan = await make_plan(project_with(stage, Acme(stage.time)), desired)
    assert {str(each.address) for each in plan.changes} >= {"Secret/shop/ID"}
    applied = await run_saved(project_with(stage, Acme(stage.time), missing), desired, plan, ())
    assert outcomes(applied) == {"Volume/shop/data#create": "done"}
    assert [each.code for each in applied.plan.diagnostics] == ["secret-source"]
