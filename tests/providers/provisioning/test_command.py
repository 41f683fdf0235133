"""`reconcile extension`, and what other verbs tell of an extension."""

import json

from tests.providers.provisioning.conftest import Scene


def test_show_tells_status_plan_secrets_and_costs(scene: Scene) -> None:
    scene.provide(costs=", costs_path: /costs")
    scene.declare(scene.extension())
    scene.apply()
    shown = scene.run("extension", "show", scene.address, "--output", "json").json
    assert shown == {
        "format_version": "1",
        "address": scene.address,
        "id": "res_1",
        "provider": "acme",
        "name": "db",
        "status": "ready",
        "plan": "small",
        "platform_app_name": None,
        "sets": ["API_KEY", "DATABASE_URL"],
        "costs": {"total": "12.50", "currency": "EUR", "token": "(sensitive)"},
        "no_costs": None,
    }
    text = scene.run("extension", "show", scene.address).out
    assert "status: ready" in text
    assert 'costs: {"total": "12.50", "currency": "EUR", "token": "(sensitive)"}' in text
    assert ("GET", "/costs") in scene.provider.sent("GET")


def test_show_says_when_a_provider_tells_no_costs(scene: Scene) -> None:
    scene.declare(scene.extension())
    scene.apply()
    told = scene.run("extension", "show", scene.address).out
    assert "costs: not known (ExtensionProvider/acme names no `costs_path`)" in told


def test_show_of_one_that_is_gone_fails(scene: Scene) -> None:
    scene.declare(scene.extension())
    scene.apply()
    scene.provider.resources.clear()
    assert "not at provider acme any more" in scene.run("extension", "show", scene.address, code=1).err


def test_sso_prints_the_address_without_a_terminal(scene: Scene) -> None:
    scene.declare(scene.extension())
    scene.apply()
    expected = f"{scene.provider.url}/extensions/res_1/sso\n"
    assert scene.run("extension", "sso", scene.address).out == expected
    assert scene.run("extension", "sso", scene.address, "--print").out == expected


def test_sso_of_something_else_is_refused(scene: Scene) -> None:
    assert "is not an extension" in scene.run("extension", "sso", "Volume/shop/data", code=1).err
    assert "is not recorded" in scene.run("extension", "sso", scene.address, code=1).err


def test_the_generic_show_lists_the_secrets_by_name(scene: Scene) -> None:
    scene.declare(scene.extension())
    scene.apply()
    assert "sets secrets: API_KEY, DATABASE_URL" in scene.run("show", scene.address).out
    document = scene.run("show", scene.address, "--output", "json").json
    assert document["sets"] == ["API_KEY", "DATABASE_URL"]
    assert document["live"]["status"] == "ready"
    assert "config" not in document["live"]


def test_state_show_lists_them_as_keyed_fingerprints(scene: Scene) -> None:
    scene.declare(scene.extension())
    scene.apply()
    applied = json.loads(scene.run("state", "show", scene.address, "--output", "json").out)["record"][
        "applied"
    ]
    assert len(applied["config.API_KEY"]) == 64
    assert applied["config.API_KEY"] != applied["config.DATABASE_URL"]
    assert applied["secrets"] == "set"


def test_the_schema_knows_the_kinds(scene: Scene) -> None:
    kinds = scene.run("schema").json["properties"]["kind"]["enum"]
    assert {"Extension", "ExtensionProvider"} <= set(kinds)


def test_the_providers_of_the_settings_are_checked_at_their_place(scene: Scene) -> None:
    scene.project.write(
        "manifests: [manifests]\nproviders:\n  acme:\n    public_url: https://acme.example\n"
        "    signing_secret_from: [{env: NEW}, {env: OLD}]\n    client_secret_from: {file: key.txt}\n",
        "reconcile.yaml",
    )
    scene.run("validate")
    scene.project.write("providers:\n  acme:\n    webhook_secret_from: {env: A, file: b}\n", "reconcile.yaml")
    refused = scene.run("validate", code=1).err
    assert "give exactly one of `env`, `file`," in refused
    assert "reconcile.yaml:3:" in refused
