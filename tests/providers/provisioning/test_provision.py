"""From a manifest to a provisioned extension, whose config the app has as secrets."""

import pytest

from tests.cli.harness import only, secret
from tests.providers.provisioning.conftest import KEY, OTHER, URL, Scene


def test_an_extension_is_provisioned_and_its_config_becomes_secrets(scene: Scene) -> None:
    scene.declare(scene.extension(", primary_region: ams"))
    applied = scene.apply()
    assert applied.outcomes() == {
        f"{scene.address}#provision": "done",
        f"{scene.address}#secrets": "done",
    }
    body = only(scene.provider.bodies("POST"))
    assert {name: body[name] for name in ("name", "organization_id", "user_role", "primary_region")} == {
        "name": "db",
        "organization_id": "org-1",
        "user_role": "admin",
        "primary_region": "ams",
    }
    assert scene.secrets() == {"API_KEY", "DATABASE_URL"}
    record = scene.record()
    assert record["id"] == "res_1"
    applied_fields = record["applied"]
    assert isinstance(applied_fields, dict)
    assert applied_fields["ours"] == body["id"]
    assert {name for name in applied_fields if name.startswith("config.")} == {
        "config.API_KEY",
        "config.DATABASE_URL",
    }
    assert scene.provider.refused == []


def test_a_second_apply_sends_nothing(applied: Scene) -> None:
    before = len(applied.sets())
    assert applied.apply().json["steps"] == []
    assert applied.provider.sent("POST", "PATCH", "DELETE") == [("POST", "/extensions")]
    assert len(applied.sets()) == before


def test_the_plan_shows_the_secrets_as_one_template_and_the_id_that_is_sent(scene: Scene) -> None:
    scene.declare(scene.extension())
    planned = scene.plan().json["steps"]
    text = scene.run("plan").out
    assert "POST /extensions at acme" in text
    assert f'POST /v1/apps/{scene.app}/secrets/${{each:key}} {{"value": "(sensitive)"}}' in text
    assert "known after that answer" in text
    scene.apply()
    assert planned[0]["body"]["id"] == only(scene.provider.bodies("POST"))["id"]


def test_a_saved_plan_sends_the_same_id_as_every_later_apply(scene: Scene) -> None:
    scene.declare(scene.extension())
    scene.run("plan", "--out", "saved.plan")
    scene.run("apply", "--plan", "saved.plan", "--auto-approve")
    first = only(scene.provider.bodies("POST"))["id"]
    scene.run("state", "forget", scene.address)
    scene.apply()
    assert [body["id"] for body in scene.provider.bodies("POST")] == [first, first]
    assert len(scene.provider.resources) == 1


def test_slow_provisioning_is_waited_for(scene: Scene) -> None:
    scene.provider.unready = 1
    scene.declare(scene.extension())
    scene.apply()
    assert len(scene.provider.sent("GET")) == 2
    assert scene.secrets() == {"API_KEY", "DATABASE_URL"}


def test_a_config_that_comes_only_once_the_resource_is_ready_is_asked_for_again(scene: Scene) -> None:
    scene.provider.unready, scene.provider.late = 2, True
    scene.declare(scene.extension())
    applied = scene.apply()
    assert set(applied.outcomes().values()) == {"done"}
    first, again = scene.provider.bodies("POST")
    assert first["id"] == again["id"]
    assert scene.secrets() == {"API_KEY", "DATABASE_URL"}
    assert scene.apply().json["steps"] == []
    assert len(scene.provider.resources) == 1


def test_an_empty_config_of_a_ready_resource_sets_no_secret_and_is_not_asked_for_again(scene: Scene) -> None:
    scene.provider.config = {}
    scene.declare(scene.extension())
    scene.apply()
    assert scene.provider.sent("POST") == [("POST", "/extensions")]
    assert scene.secrets() == set()
    assert scene.apply().json["steps"] == []


def test_a_status_that_nobody_knows_is_shown_and_pending(scene: Scene) -> None:
    scene.provider.ends_as = "hibernating"
    scene.declare(scene.extension(rest="lifecycle: {timeout_s: 1}\n"))
    applied = scene.apply(code=4)
    assert "still hibernating" in applied.json["results"][0]["error"]
    assert scene.record()["id"] == "res_1"
    scene.provider.resources["res_1"]["status"] = "sleeping"
    scene.apply()
    assert scene.secrets() == {"API_KEY", "DATABASE_URL"}
    assert len(scene.provider.resources) == 1


def test_a_provisioning_that_fails_keeps_its_id(scene: Scene) -> None:
    scene.provider.ends_as = "error"
    scene.declare(scene.extension())
    applied = scene.apply(code=1)
    assert "ended as error; its id is recorded" in applied.json["results"][0]["error"]
    assert scene.record()["id"] == "res_1"
    assert scene.secrets() == set()
    scene.provider.resources["res_1"]["status"] = "ready"
    scene.apply()
    assert scene.secrets() == {"API_KEY", "DATABASE_URL"}


def test_the_id_may_be_the_one_that_was_sent(scene: Scene) -> None:
    scene.provider.same_id = True
    scene.declare(scene.extension())
    scene.apply()
    assert scene.record()["id"] == only(scene.provider.bodies("POST"))["id"]
    assert scene.apply().json["steps"] == []


def test_a_replacement_name_and_the_app_that_gets_traffic_are_recorded(scene: Scene) -> None:
    scene.provider.name, scene.provider.app_name = "db-7", "acme-prod"
    scene.declare(scene.extension())
    scene.apply()
    applied = scene.record()["applied"]
    assert isinstance(applied, dict)
    assert (applied["name"], applied["replacement_name"]) == ("db", "db-7")
    assert applied["platform_app_name"] == "acme-prod"
    assert scene.apply().json["steps"] == []
    assert scene.run("drift").code == 0


def test_signatures_may_be_in_base64(scene: Scene) -> None:
    scene.provider.encoding = "base64"
    scene.provide(encoding="base64")
    scene.declare(scene.extension())
    scene.apply()
    assert scene.provider.refused == []


def test_a_wrong_signing_secret_is_refused_and_nothing_is_recorded(scene: Scene) -> None:
    scene.project.env["ACME_SIGNING_SECRET"] = OTHER
    scene.declare(scene.extension())
    applied = scene.apply(code=1)
    assert "the provider's words are not shown" in applied.json["results"][0]["error"]
    assert scene.records() == []


def test_without_the_signing_secret_the_provider_is_asked_nothing_and_all_else_goes_on(scene: Scene) -> None:
    del scene.project.env["ACME_SIGNING_SECRET"]
    scene.declare(scene.extension(), secret(scene.app, "OWN", "env: OWN_SECRET"))
    scene.project.env["OWN_SECRET"] = OTHER
    assert scene.plan().json["summary"]["create"] == 1
    refused = scene.apply(code=1)
    assert "the signing secret of ExtensionProvider/acme cannot be read here" in refused.out
    assert refused.outcomes() == {f"Secret/{scene.app}/OWN#set": "done"}
    assert scene.provider.requests == []


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"DATABASE_URL": URL, "bad-key": KEY}, "a key `bad-key`, which is not a valid name of a secret"),
        ({"DATABASE_URL": URL, "": KEY}, "a key ``, which is not a valid name of a secret"),
        ({"DATABASE_URL": URL, "API_KEY\n": KEY}, "a key `API_KEY`, which is not a valid name of a secret"),
        ({"DATABASE_URL": URL, "PORT": 5432}, "a value of `PORT` that is not text"),
        ({"DATABASE_URL": URL, "MORE": {"password": KEY}}, "a value of `MORE` that is not text"),
        ({"DATABASE_URL": URL, "LD_PRELOAD": KEY}, "`LD_PRELOAD`, which changes how programs run"),
        ({"DATABASE_URL": URL, "https_proxy": KEY}, "`https_proxy`, which changes how programs run"),
        ([URL], "has no `config`"),
    ],
    ids=["hyphen", "empty", "line-end", "number", "object", "loader", "proxy", "list"],
)
def test_an_unfit_config_sets_nothing_and_names_the_key(scene: Scene, config: object, reason: str) -> None:
    scene.provider.config = config  # type: ignore[assignment]
    scene.declare(scene.extension())
    applied = scene.apply(code=1)
    assert reason in applied.json["results"][1]["error"]
    assert scene.sets() == []
    assert scene.record()["id"] == "res_1"


def test_a_config_sets_only_keys_that_the_manifest_allows(scene: Scene) -> None:
    scene.provider.config = {"DATABASE_URL": URL, "API_KEY": KEY}
    scene.declare(scene.extension(", config_keys: [DATABASE_URL, API]"))
    applied = scene.apply(code=1)
    assert "a key `API_KEY` that the manifest does not allow" in applied.json["results"][1]["error"]
    assert scene.sets() == []
    scene.declare(scene.extension(", config_keys: [DATABASE_URL, API_*]"))
    applied = scene.apply()
    assert scene.secrets() == {"API_KEY", "DATABASE_URL"}
    assert "set API_KEY, DATABASE_URL" in applied.json["results"][-1]["note"]
    assert "config_keys" not in str(scene.provider.bodies("POST"))
    assert scene.apply().json["steps"] == []


def test_metadata_id_adopts_a_resource_without_posting(scene: Scene) -> None:
    scene.provider.resources["res_9"] = {"id": "res_9", "name": "db", "status": "ready", "unready": 0}
    scene.declare(scene.extension(metadata=", id: res_9"))
    assert "its config is not known" in scene.run("plan").out
    scene.apply()
    assert scene.record()["id"] == "res_9"
    assert scene.provider.sent("POST", "PATCH") == []
    assert scene.apply().json["steps"] == []
