"""`reconcile extension`, and what other verbs tell of an extension."""

from tests.providers.provisioning.conftest import Scene


def test_show_tells_costs_as_far_as_the_provider_does(applied: Scene) -> None:
    assert "costs" not in applied.run("show", applied.address, "--output", "json").json
    applied.provide(costs=", costs_path: /costs")
    shown = applied.run("show", applied.address, "--output", "json").json
    assert shown["costs"] == [{"total": "12.50", "currency": "EUR", "token": "(sensitive)"}]
    assert ("GET", "/costs") in applied.provider.sent("GET")
    applied.provide(costs=", costs_path: /nothing-here")
    assert "not_known" in applied.run("show", applied.address).out


def test_the_old_word_says_the_new_one(scene: Scene) -> None:
    refused = scene.run("extension", "show", scene.address, code=64)
    assert refused.err == "Error: `extension show` is `show ADDRESS` now\n"


def test_sso_prints_the_address_without_a_terminal(applied: Scene) -> None:
    expected = f"{applied.provider.url}/extensions/res_1/sso\n"
    assert applied.run("extension", "sso", applied.address).out == expected
    assert applied.run("extension", "sso", applied.address, "--print").out == expected


def test_sso_of_something_else_is_refused(scene: Scene) -> None:
    assert "is not an extension" in scene.run("extension", "sso", "Volume/shop/data", code=1).err
    assert "is not recorded" in scene.run("extension", "sso", scene.address, code=1).err


def test_the_generic_show_lists_the_secrets_by_name(applied: Scene) -> None:
    assert "sets secrets: API_KEY, DATABASE_URL" in applied.run("show", applied.address).out
    document = applied.run("show", applied.address, "--output", "json").json
    assert document["sets"] == ["API_KEY", "DATABASE_URL"]
    assert document["live"]["status"] == "ready"
    assert "config" not in document["live"]


def test_state_show_lists_them_as_keyed_fingerprints(applied: Scene) -> None:
    fields = applied.record()["applied"]
    assert isinstance(fields, dict)
    assert len(fields["config.API_KEY"]) == 64
    assert fields["config.API_KEY"] != fields["config.DATABASE_URL"]
    assert fields["secrets"] == "set"


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
