"""Lost answers and killed processes: the same id is posted again, and nothing is made twice."""

import pytest

from tests.cli.harness import only
from tests.providers.provisioning.conftest import KEY, OTHER, URL, Scene

FOREVER_S = 600


def test_a_lost_answer_to_the_post_is_asked_for_again_with_the_same_id(scene: Scene) -> None:
    scene.provider.lose.append("POST")
    scene.declare(scene.extension())
    scene.apply()
    first, second = scene.provider.bodies("POST")
    assert first["id"] == second["id"]
    assert first["nonce"] != second["nonce"]
    assert len(scene.provider.resources) == 1
    assert scene.secrets() == {"API_KEY", "DATABASE_URL"}


def test_a_post_that_never_arrived_is_sent_again(scene: Scene) -> None:
    scene.provider.drop.append("POST")
    scene.declare(scene.extension())
    scene.apply()
    assert len(scene.provider.resources) == 1


def test_two_lost_answers_are_pending_and_the_next_run_goes_on(scene: Scene) -> None:
    scene.provider.lose += ["POST", "POST"]
    scene.declare(scene.extension())
    assert scene.apply(code=4).outcomes()[f"{scene.address}#provision"] == "pending"
    assert scene.record()["id"] == scene.provider.bodies("POST")[0]["id"]
    scene.apply()
    assert scene.record()["id"] == "res_1"
    assert len(scene.provider.resources) == 1
    assert scene.secrets() == {"API_KEY", "DATABASE_URL"}


def test_what_a_lost_post_may_have_made_is_not_forgotten_with_its_manifest(scene: Scene) -> None:
    scene.provider.lose += ["POST", "POST"]
    scene.declare(scene.extension(rest="lifecycle: {deletion: delete}\n"))
    scene.apply(code=4)
    scene.project.remove()
    left = scene.plan().json["changes"]
    assert [(change["address"], change["action"]) for change in left] == [(scene.address, "retain")]
    assert "state forget" in left[0]["reason"]


def edited_since(scene: Scene) -> None:
    """The manifest changed after the order was posted, at a provider that takes one order an id."""
    scene.declare(scene.extension(", read_regions: [fra]"))
    scene.apply()
    assert scene.secrets() == {"API_KEY", "DATABASE_URL"}
    assert [body["read_regions"] for body in scene.provider.bodies("PATCH")] == [["fra"]]
    assert scene.apply().json["steps"] == []
    assert len(scene.provider.resources) == 1


def test_an_order_is_taken_up_as_it_was_posted_though_its_manifest_changed(scene: Scene) -> None:
    scene.provider.keeps_orders = True
    scene.provider.lose += ["POST", "POST"]
    scene.declare(scene.extension())
    scene.apply(code=4)
    edited_since(scene)


def test_secrets_are_taken_up_though_the_manifest_changed(scene: Scene) -> None:
    scene.provider.keeps_orders = True
    path = f"/v1/apps/{scene.app}/secrets/API_KEY"
    scene.sandbox.fault("POST", path, "status", status=422)
    scene.declare(scene.extension())
    scene.apply(code=1)
    edited_since(scene)


def test_a_deletion_that_a_kill_cut_off_is_found_to_be_done(removed: Scene) -> None:
    removed.provider.hold.add("DELETE")
    with removed.project.started("apply", "--auto-approve", "--approve-delete", removed.address) as running:
        running.until(lambda: not removed.provider.resources)
        running.kill()
    removed.provider.release.set()
    (change,) = removed.plan().json["changes"]
    assert change["action"] == "forget"
    removed.apply()
    assert removed.records() == []


def test_a_person_may_say_what_a_lost_post_made(scene: Scene) -> None:
    scene.provider.lose += ["POST", "POST"]
    scene.declare(scene.extension())
    scene.apply(code=4)
    problem = scene.run("resolve", scene.address, "--adopt", "res_9", code=1).err
    assert "cannot check that res_9 exists" in problem  # the provider was asked, not the platform
    assert "by provider acme" in problem
    scene.run("resolve", scene.address, "--adopt", "res_1")
    assert scene.record()["id"] == "res_1"
    scene.apply()
    assert scene.secrets() == {"API_KEY", "DATABASE_URL"}
    assert len(scene.provider.resources) == 1


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"id": ""}', b"<html>gateway</html>", b'{"id": "res_1", "config"'], ids=repr
)
def test_an_answer_without_an_id_is_no_success(scene: Scene, body: bytes) -> None:
    scene.provider.answer["POST"] = (201, body)
    scene.declare(scene.extension())
    scene.apply()
    assert len(scene.provider.sent("POST")) == 2
    assert scene.record()["id"] == "res_1"


def test_a_refused_post_shows_nothing_of_what_the_provider_said(scene: Scene) -> None:
    scene.provider.answer["POST"] = (422, f'{{"error": "no room for {URL}"}}'.encode())
    scene.declare(scene.extension())
    error = scene.apply(code=1).json["results"][0]["error"]
    assert error == (
        "POST /extensions was answered 422 by provider acme: the provider's words are not shown: "
        "they may repeat a value"
    )
    assert scene.records() == []


def test_killed_while_the_post_is_under_way(scene: Scene) -> None:
    scene.provider.hold.add("POST")
    scene.declare(scene.extension())
    with scene.project.started("apply", "--auto-approve") as running:
        running.until(lambda: bool(scene.provider.sent("POST")))
        running.kill()
    scene.provider.hold.clear()
    scene.provider.release.set()
    scene.apply()
    assert len(scene.provider.resources) == 1
    first, second = scene.provider.bodies("POST")
    assert first["id"] == second["id"]
    assert scene.secrets() == {"API_KEY", "DATABASE_URL"}


@pytest.mark.parametrize("landed", [True, False], ids=["landed", "not-landed"])
@pytest.mark.parametrize("key", ["API_KEY", "DATABASE_URL"])
def test_killed_between_the_answer_and_the_last_secret(scene: Scene, key: str, landed: bool) -> None:
    path = f"/v1/apps/{scene.app}/secrets/{key}"
    scene.sandbox.fault("POST", path, "delay", delay_s=30 if landed else FOREVER_S, before=not landed)
    scene.declare(scene.extension())
    with scene.project.started("apply", "--auto-approve") as running:
        running.until(scene.sandbox.fault_taken)
        running.kill()
    assert scene.record()["id"] == "res_1"
    planned = scene.plan().json
    assert planned["changes"][0]["action"] == "set"
    assert "the same id is posted again" in planned["changes"][0]["reason"]
    scene.apply()
    first, second = scene.provider.bodies("POST")
    assert first["id"] == second["id"]
    assert len(scene.provider.resources) == 1
    assert scene.secrets() == {"API_KEY", "DATABASE_URL"}
    done_before = ["API_KEY"] if key == "DATABASE_URL" else []
    assert [name for name in scene.sets() if name in done_before] == done_before  # not sent again
    assert scene.apply().json["steps"] == []


def test_a_secret_that_the_platform_refuses_is_named_and_set_by_the_next_run(scene: Scene) -> None:
    scene.sandbox.fault(
        "POST", f"/v1/apps/{scene.app}/secrets/DATABASE_URL", "status", status=422, body={"error": URL}
    )
    scene.declare(scene.extension())
    error = scene.apply(code=1).json["results"][1]["error"]
    call = f"POST /v1/apps/{scene.app}/secrets/DATABASE_URL"
    assert error.startswith(f"`DATABASE_URL`: {call} was answered 422: the platform's words are not shown")
    assert scene.secrets() == {"API_KEY"}
    scene.apply()
    assert scene.sets().count("API_KEY") == 1
    assert scene.secrets() == {"API_KEY", "DATABASE_URL"}


def test_a_value_that_changed_meanwhile_is_set(scene: Scene) -> None:
    scene.sandbox.fault("POST", f"/v1/apps/{scene.app}/secrets/DATABASE_URL", "status", status=422)
    scene.declare(scene.extension())
    scene.apply(code=1)
    scene.provider.config = {"API_KEY": OTHER, "DATABASE_URL": URL}
    scene.apply()
    assert scene.sets() == ["API_KEY", "DATABASE_URL", "API_KEY", "DATABASE_URL"]


def test_another_id_in_the_second_answer_is_used_from_then_on(scene: Scene) -> None:
    scene.sandbox.fault("POST", f"/v1/apps/{scene.app}/secrets/API_KEY", "status", status=422)
    scene.declare(scene.extension())
    scene.apply(code=1)
    ours = only(scene.provider.bodies("POST"))["id"]
    scene.provider.resources["res_77"] = {**scene.provider.resources["res_1"], "id": "res_77"}
    scene.provider.ids[ours] = "res_77"
    scene.provider.config = {"API_KEY": KEY}
    scene.apply()
    assert scene.record()["id"] == "res_77"
    assert scene.apply().json["steps"] == []
