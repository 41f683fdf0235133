"""A saved plan names where its provider is, and runs there or not at all."""

import json
from collections.abc import Iterator

import pytest

from reconciler.core.steps import Plan, Read
from reconciler.core.wire import one
from reconciler.services.providers.wire import Extension
from reconciler.services.registry import providers_of
from tests.contexts import context
from tests.providers.provisioning.conftest import Scene
from tests.providers.provisioning.provider import FakeProvider, serving_provider


@pytest.fixture
def elsewhere() -> Iterator[FakeProvider]:
    """A server that would take the calls, too: it knows the same signing secret."""
    with serving_provider(config={"DATABASE_URL": "postgres://elsewhere"}) as other:
        yield other


def move(scene: Scene, to: FakeProvider) -> FakeProvider:
    """The manifest names `to` from now on. The server that it named before comes back."""
    before, scene.provider = scene.provider, to
    scene.provide()
    return before


def saved(scene: Scene) -> None:
    scene.run("state", "init")
    scene.run("plan", "--out", "saved.plan")


def test_a_plan_shows_where_its_provider_is(scene: Scene) -> None:
    scene.declare(scene.extension())
    assert scene.plan().json["providers"] == {"acme": scene.provider.url}
    assert f"POST /extensions at acme ({scene.provider.url}) {{" in scene.run("plan").out


def test_a_plan_that_goes_to_no_provider_names_none(scene: Scene) -> None:
    assert "providers" not in scene.plan().json


def test_a_saved_create_is_refused_when_its_provider_moved(scene: Scene, elsewhere: FakeProvider) -> None:
    scene.declare(scene.extension())
    saved(scene)
    planned = move(scene, elsewhere)
    refused = scene.apply("--plan", "saved.plan", code=1)
    (problem,) = refused.json["diagnostics"]
    assert problem["code"] == "provider-moved"
    assert problem["message"] == (
        f"ExtensionProvider/acme is at {elsewhere.url}; the plan was made for {planned.url}"
    )
    assert "`reconcile plan --out FILE`" in problem["help"]
    assert "nothing was changed" in refused.err
    assert not planned.requests
    assert not elsewhere.requests
    assert not elsewhere.refused
    assert scene.secrets() == set()


def test_it_runs_once_the_address_is_the_planned_one_again(scene: Scene, elsewhere: FakeProvider) -> None:
    scene.declare(scene.extension())
    saved(scene)
    planned = move(scene, elsewhere)
    scene.apply("--plan", "saved.plan", code=1)
    move(scene, planned)
    scene.apply("--plan", "saved.plan")
    assert planned.sent("POST") == [("POST", "/extensions")]
    assert scene.secrets() == {"API_KEY", "DATABASE_URL"}


def test_a_saved_update_asks_nothing_of_the_other_server(scene: Scene, elsewhere: FakeProvider) -> None:
    scene.declare(scene.extension())
    scene.apply()
    scene.declare(scene.extension(", primary_region: ams"))
    saved(scene)
    # It has the same resource: nothing but its address tells it from the first one.
    elsewhere.resources |= scene.provider.resources
    move(scene, elsewhere)
    scene.apply("--plan", "saved.plan", code=1)
    assert not elsewhere.requests


def test_a_slash_at_the_end_is_the_same_address(scene: Scene) -> None:
    scene.declare(scene.extension())
    saved(scene)
    plain = scene.provider.url
    scene.provider.url = f"{plain}/"
    scene.provide()
    scene.provider.url = plain
    scene.apply("--plan", "saved.plan")


def test_a_changed_address_in_the_file_is_refused(scene: Scene, elsewhere: FakeProvider) -> None:
    scene.declare(scene.extension())
    saved(scene)
    file = scene.project.root / "saved.plan"
    document = json.loads(file.read_text(encoding="utf-8"))
    document["plan"]["providers"] = {"acme": elsewhere.url}
    file.write_text(json.dumps(document), encoding="utf-8")
    move(scene, elsewhere)
    assert "was changed after it was saved" in scene.run("apply", "--plan", "saved.plan", code=1).err
    assert not elsewhere.requests


def test_a_provider_that_is_only_read_is_one_of_the_plan() -> None:
    read = Read("/extensions/res_1", one(Extension), "acme")
    plan = Plan(
        "plan",
        context(),
        *((),) * 6,
        inputs=(("Extension/shop/db", read),),
    )
    assert providers_of(plan) == ["acme"]
