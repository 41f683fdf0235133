"""What follows after provisioning: changes, drift, removal, and whose a secret is."""

from tests.cli.harness import only, secret
from tests.providers.provisioning.conftest import KEY, OTHER, URL, Scene
from tests.providers.provisioning.provider import FakeProvider, serving_provider


def test_a_changed_field_is_patched_with_all_parameters(scene: Scene) -> None:
    scene.declare(scene.extension(", read_regions: [iad]"))
    scene.apply()
    scene.declare(scene.extension(", read_regions: [iad, fra]"))
    assert scene.apply().outcomes()[f"{scene.address}#update"] == "done"
    body = only(scene.provider.bodies("PATCH"))
    assert body["read_regions"] == ["iad", "fra"]
    assert (body["name"], body["user_id"]) == ("db", "user-1")
    assert body["id"] == only(scene.provider.bodies("POST"))["id"]
    assert scene.apply().json["steps"] == []
    assert scene.sets() == ["API_KEY", "DATABASE_URL"]


def test_what_a_patch_brings_is_set_where_it_differs(applied: Scene) -> None:
    applied.provider.update_config = {"API_KEY": KEY, "DATABASE_URL": OTHER, "REPLICA_URL": URL}
    applied.declare(applied.extension(", read_regions: [fra]"))
    applied.apply()
    assert applied.sets() == ["API_KEY", "DATABASE_URL", "DATABASE_URL", "REPLICA_URL"]
    assert applied.apply().json["steps"] == []


def test_what_a_patch_brought_and_could_not_be_set_is_set_by_the_next_run(applied: Scene) -> None:
    applied.provider.config = applied.provider.update_config = {"API_KEY": OTHER, "DATABASE_URL": URL}
    applied.sandbox.fault("POST", f"/v1/apps/{applied.app}/secrets/API_KEY", "status", status=422)
    applied.declare(applied.extension(", read_regions: [fra]"))
    applied.apply(code=1)
    applied.apply()
    assert applied.sets() == ["API_KEY", "DATABASE_URL", "API_KEY", "API_KEY"]
    assert applied.apply().json["steps"] == []


def test_a_lost_patch_is_repeated(applied: Scene) -> None:
    applied.provider.lose += ["PATCH", "PATCH"]
    applied.declare(applied.extension(", primary_region: fra"))
    assert applied.apply(code=4).outcomes()[f"{applied.address}#update"] == "pending"
    applied.apply()
    assert len(applied.provider.bodies("PATCH")) == 3
    assert len(applied.provider.resources) == 1
    assert applied.apply().json["steps"] == []


def test_a_name_that_somebody_changed_is_drift_and_sleeping_is_not(applied: Scene) -> None:
    applied.provider.resources["res_1"]["status"] = "sleeping"
    assert applied.run("drift").code == 0
    assert applied.plan().json["changes"] == []
    applied.provider.resources["res_1"]["name"] = "theirs"
    assert 'name: "db" -> "theirs"' in applied.run("drift", code=2).out
    applied.apply()
    assert applied.provider.resources["res_1"]["name"] == "db"
    assert applied.run("drift").code == 0


def test_one_that_is_gone_is_never_made_again_by_itself(applied: Scene) -> None:
    applied.provider.resources.clear()
    refused = applied.apply(code=1)
    assert [diagnostic["code"] for diagnostic in refused.json["diagnostics"]] == ["object-missing"]
    assert applied.provider.sent("POST") == [("POST", "/extensions")]


def test_a_removed_manifest_keeps_the_extension(applied: Scene) -> None:
    applied.project.remove()
    assert applied.apply().json["steps"] == []
    assert len(applied.provider.resources) == 1


def test_an_approved_deletion_deprovisions_and_says_which_secrets_stay(removed: Scene) -> None:
    assert "delete-not-approved" in removed.apply(code=1).out
    plan = removed.run("plan").out
    assert f"its secrets stay set on app {removed.app}: API_KEY, DATABASE_URL" in plan
    removed.apply("--approve-delete", removed.address)
    assert removed.provider.resources == {}
    assert removed.provider.sent("DELETE") == [("DELETE", "/extensions/res_1")]
    assert removed.secrets() == {"API_KEY", "DATABASE_URL"}
    assert removed.records() == []


def test_a_lost_answer_to_a_deletion_is_settled_by_looking(removed: Scene) -> None:
    removed.provider.lose.append("DELETE")
    removed.apply("--approve-delete", removed.address)
    assert removed.provider.sent("DELETE") == [("DELETE", "/extensions/res_1")]
    assert removed.records() == []


def test_a_removal_without_the_providers_manifest_is_refused(removed: Scene) -> None:
    removed.project.remove("manifests/provider.yaml")
    removed.project.write("# none\n")
    refused = removed.apply("--approve-delete", removed.address, code=1)
    assert "there is no ExtensionProvider `acme` among the manifests" in refused.out
    assert len(removed.provider.resources) == 1


def test_a_key_that_a_secret_manifest_owns_is_not_overwritten(scene: Scene) -> None:
    scene.project.env["OWN_URL"] = OTHER
    scene.declare(scene.extension(), secret(scene.app, "DATABASE_URL", "env: OWN_URL"))
    applied = scene.apply(code=1)
    error = next(result["error"] for result in applied.json["results"] if result["step"].endswith("#secrets"))
    assert f"`{scene.address}`" in error
    assert f"`Secret/{scene.app}/DATABASE_URL`" in error
    assert scene.sets() == ["DATABASE_URL"]  # the manifest's own; and API_KEY is not set either
    assert scene.record()["id"] == "res_1"


def test_a_key_of_a_secret_manifest_that_could_not_be_set_yet_is_not_taken(scene: Scene) -> None:
    scene.project.env["OWN_URL"] = OTHER
    path = f"/v1/apps/{scene.app}/secrets/DATABASE_URL"
    scene.sandbox.fault("POST", path, "status", status=422, times=2)
    scene.declare(scene.extension(), secret(scene.app, "DATABASE_URL", "env: OWN_URL"))
    scene.apply(code=1)
    assert scene.sets() == ["DATABASE_URL"]
    assert scene.secrets() == set()


def test_a_key_of_a_record_whose_manifest_was_not_given_is_not_overwritten(scene: Scene) -> None:
    scene.project.env["OWN_URL"] = OTHER
    scene.project.write(secret(scene.app, "DATABASE_URL", "env: OWN_URL"), "manifests/secret.yaml")
    scene.apply()
    scene.declare(scene.extension())
    applied = scene.apply("manifests/main.yaml", "manifests/provider.yaml", code=1)
    assert f"`Secret/{scene.app}/DATABASE_URL`" in applied.json["results"][-1]["error"]
    assert scene.sets() == ["DATABASE_URL"]


def test_a_secret_manifest_of_a_key_that_an_extension_set_is_refused(applied: Scene) -> None:
    applied.project.env["OWN_URL"] = OTHER
    applied.declare(applied.extension(), secret(applied.app, "DATABASE_URL", "env: OWN_URL"))
    refused = applied.apply(code=1)
    (problem,) = refused.json["diagnostics"]
    assert problem["code"] == "secret-taken"
    assert applied.address in problem["message"]
    assert applied.sets() == ["API_KEY", "DATABASE_URL"]


def declare_two(scene: Scene, other: FakeProvider) -> None:
    """Besides the usual extension one of the provider `other`."""
    scene.project.write(
        "apiVersion: reconciler/v1\nkind: ExtensionProvider\nmetadata: {name: other}\n"
        f"spec: {{base_url: '{other.url}', signing_secret_from: {{env: ACME_SIGNING_SECRET}}}}\n",
        "manifests/other.yaml",
    )
    second = scene.extension(name="db2").replace("provider: acme", "provider: other")
    scene.declare(scene.extension(), second)


def test_two_extensions_with_one_key_do_not_overwrite_each_other(scene: Scene) -> None:
    with serving_provider(config={"DATABASE_URL": OTHER}) as other:
        declare_two(scene, other)
        applied = scene.apply(code=1)
        errors = [result["error"] for result in applied.json["results"] if result["outcome"] == "failed"]
        assert scene.address in only(errors)
        assert f"Extension/{scene.app}/db2" in only(errors)
        assert scene.sets() == ["API_KEY", "DATABASE_URL"]


def test_two_providers_may_use_one_id(scene: Scene) -> None:
    with serving_provider(config={"OTHER_URL": OTHER}) as other:
        declare_two(scene, other)
        scene.apply()
        assert scene.record()["id"] == scene.record(f"Extension/{scene.app}/db2")["id"] == "res_1"
        again = scene.apply().json
        assert (again["steps"], again["diagnostics"]) == ([], [])
        assert scene.secrets() == {"API_KEY", "DATABASE_URL", "OTHER_URL"}


def test_an_extension_keeps_its_id_after_a_move(scene: Scene) -> None:
    scene.sandbox.fault("POST", f"/v1/apps/{scene.app}/secrets/API_KEY", "status", status=422)
    scene.declare(scene.extension())
    scene.apply(code=1)
    scene.run("state", "mv", scene.address, f"Extension/{scene.app}/main")
    scene.declare(scene.extension(", name: db", name="main"))
    scene.apply()
    first, second = scene.provider.bodies("POST")
    assert first["id"] == second["id"]
    assert len(scene.provider.resources) == 1
