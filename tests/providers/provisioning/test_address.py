"""A saved plan names where its provider is, and runs there or not at all."""

import json
from collections.abc import Iterator

import pytest

from reconciler.core.steps import Plan, Read
from reconciler.core.wire import one
from reconciler.services.machines.wire.extension import Extension
from reconciler.services.registry import providers_of
from tests.cli.harness import secret
from tests.contexts import context
from tests.providers.provisioning.conftest import Scene
from tests.providers.provisioning.provider import FakeProvider, serving_provider


@pytest.fixture
def other_server() -> Iterator[FakeProvider]:
    """A server that would take the calls, too: it knows the same signing secret."""
    with serving_provider(config={"DATABASE_URL": "postgres://other"}) as other:
        yield other


def move(scene: Scene, to: FakeProvider) -> FakeProvider:
    """The manifest names `to` from now on. The server that it named before comes back."""
    before, scene.provider = scene.provider, to
    scene.provide()
    return before


def saved(scene: Scene) -> None:
    scene.run("plan", "--out", "saved.plan")


def name_in_file(scene: Scene, provider: FakeProvider) -> None:
    """Somebody writes `provider` into the saved plan."""
    file = scene.project.root / "saved.plan"
    document = json.loads(file.read_text(encoding="utf-8"))
    document["plan"]["providers"] = {"acme": provider.url}
    file.write_text(json.dumps(document), encoding="utf-8")


def test_a_plan_shows_where_its_provider_is(scene: Scene) -> None:
    scene.declare(scene.extension())
    assert scene.plan().json["providers"] == {"acme": scene.provider.url}
    assert f"POST /extensions at acme ({scene.provider.url}) {{" in scene.run("plan").out


def test_a_plan_that_goes_to_no_provider_names_none(scene: Scene) -> None:
    assert "providers" not in scene.plan().json


def test_a_saved_create_is_refused_when_its_provider_moved(scene: Scene, other_server: FakeProvider) -> None:
    scene.declare(scene.extension())
    saved(scene)
    planned = move(scene, other_server)
    refused = scene.apply("--plan", "saved.plan", code=1)
    (problem,) = refused.json["diagnostics"]
    assert problem["code"] == "plan-moved"
    then, now = problem["message"].split(", but this run plans ")
    assert then.startswith(f"`{scene.address}`: the file plans create, POST /extensions of {planned.url} {{")
    assert now.startswith(f"create, POST /extensions of {other_server.url} {{")
    assert "`reconcile plan --out FILE`" in problem["help"]
    assert "nothing was changed" in refused.err
    assert not planned.requests
    assert not other_server.requests
    assert not other_server.refused
    assert scene.secrets() == set()


def test_it_runs_once_the_address_is_the_planned_one_again(scene: Scene, other_server: FakeProvider) -> None:
    scene.declare(scene.extension())
    saved(scene)
    planned = move(scene, other_server)
    scene.apply("--plan", "saved.plan", code=1)
    move(scene, planned)
    scene.apply("--plan", "saved.plan")
    assert planned.sent("POST") == [("POST", "/extensions")]
    assert scene.secrets() == {"API_KEY", "DATABASE_URL"}


def test_a_saved_update_sends_nothing_to_the_other_server(applied: Scene, other_server: FakeProvider) -> None:
    before = applied.sets()
    applied.declare(applied.extension(", primary_region: ams"))
    saved(applied)
    # It has the same resource: nothing but its address tells it from the first one.
    other_server.resources |= applied.provider.resources
    planned = move(applied, other_server)
    sent = list(planned.requests)
    (problem,) = applied.apply("--plan", "saved.plan", code=1).json["diagnostics"]
    assert problem["code"] == "plan-moved"
    then, now = problem["message"].split(", but this run plans ")
    assert f"PATCH /extensions/res_1 of {planned.url} {{" in then
    assert f"PATCH /extensions/res_1 of {other_server.url} {{" in now
    # Apply's own plan looks at what the manifests name, as every plan does; more it does not do.
    assert {method for method, *_ in other_server.requests} == {"GET"}
    assert planned.requests == sent
    assert applied.sets() == before


def test_a_saved_value_is_not_made_of_what_the_other_server_answers(
    scene: Scene, other_server: FakeProvider
) -> None:
    """No call of this plan goes to the provider; only a template is filled from what it says."""
    scene.declare(scene.extension())
    scene.apply()
    before = scene.sets()
    template = f"${{Extension/{scene.app}/db:status}}"
    scene.declare(
        scene.extension(),
        secret(scene.app, "STATUS", f"template: '{template}'"),
    )
    saved(scene)
    other_server.resources |= scene.provider.resources
    planned = move(scene, other_server)
    (problem,) = scene.apply("--plan", "saved.plan", code=1).json["diagnostics"]
    assert problem["code"] == "plan-moved"
    then, now = problem["message"].split(", but this run plans ")
    assert then.startswith(f"`Secret/{scene.app}/STATUS`: the file plans set, ")
    assert then.endswith(f", asks {planned.url}")
    assert now.endswith(f", asks {other_server.url}")
    assert scene.sets() == before
    move(scene, planned)
    scene.apply("--plan", "saved.plan")
    assert scene.sets() == [*before, "STATUS"]


def test_a_slash_at_the_end_is_the_same_address(scene: Scene) -> None:
    scene.declare(scene.extension())
    saved(scene)
    plain = scene.provider.url
    scene.provider.url = f"{plain}/"
    scene.provide()
    scene.provider.url = plain
    scene.apply("--plan", "saved.plan")


def test_a_changed_address_in_the_file_is_refused(scene: Scene, other_server: FakeProvider) -> None:
    scene.declare(scene.extension())
    saved(scene)
    name_in_file(scene, other_server)
    (problem,) = scene.apply("--plan", "saved.plan", code=1).json["diagnostics"]
    assert problem["code"] == "plan-moved"
    assert f"the file plans create, POST /extensions of {other_server.url} {{" in problem["message"]
    assert not other_server.requests  # nothing that only a file names is asked
    assert not scene.provider.requests
    assert scene.secrets() == set()


def test_a_changed_address_in_the_file_goes_where_the_manifests_say(
    scene: Scene, other_server: FakeProvider
) -> None:
    """Who can change both has said so twice: a file adds nothing to what an apply without one does."""
    scene.declare(scene.extension())
    saved(scene)
    planned = move(scene, other_server)
    name_in_file(scene, other_server)
    scene.apply("--plan", "saved.plan")
    assert other_server.sent("POST") == [("POST", "/extensions")]
    assert not planned.requests


def test_a_provider_that_is_only_read_is_one_of_the_plan() -> None:
    read = Read("/extensions/res_1", one(Extension), "acme")
    plan = Plan(
        "plan",
        context(),
        *((),) * 6,
        inputs=(("Extension/shop/db", read),),
    )
    assert providers_of(plan) == ["acme"]
