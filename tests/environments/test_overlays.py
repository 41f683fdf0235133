"""Which overlays are read, what they are laid over, and what resources then know of them."""

import json
from pathlib import Path

from reconciler.kinds import find_kinds
from reconciler.kinds.roles import secret_of
from reconciler.manifests.load import load
from tests.environments.case import load_prod, write_project
from tests.inprocess import Command, secret, volume


def test_overlays_are_no_manifests_where_the_whole_project_is_given(reconcile: Command) -> None:
    reconcile.write("data.yaml", volume())
    reconcile.write("overlays/prod/a.yaml", "Volume/shop/data: {spec: {size_gb: 20}}\n")
    assert reconcile("validate . --env base").out == "Valid: 1 resource in 1 file.\n"
    assert "size_gb: 20" in reconcile("build . --env prod").out


def test_overlays_of_another_folder_are_read_where_the_settings_say(reconcile: Command) -> None:
    reconcile.write("reconcile.yaml", "overlays: deploy/envs\nmanifests: [deploy]\n")
    reconcile.write("deploy/data.yaml", volume())
    reconcile.write("deploy/envs/prod/a.yaml", "Volume/shop/data: {spec: {size_gb: 20}}\n")
    assert "size_gb: 10" in reconcile("build").out
    assert "size_gb: 20" in reconcile("build --env prod").out


def test_build_prints_one_versioned_document_as_json(reconcile: Command) -> None:
    reconcile.write("manifests/data.yaml", volume())
    reconcile.write("overlays/prod/a.yaml", "Volume/shop/data: {spec: {size_gb: 20}}\n")
    document = json.loads(reconcile("build --env prod --output json").out)
    assert document["format_version"] == "1"
    assert [each["spec"]["size_gb"] for each in document["manifests"]] == [20]
    assert set(document) == {"format_version", "manifests"}


def test_an_overlays_folder_outside_of_the_project_is_refused(reconcile: Command) -> None:
    for folder in ("../elsewhere", "/etc", "a/../b", ".", ""):
        reconcile.write("reconcile.yaml", f'overlays: "{folder}"\n')
        assert "error[bad-setting]: `overlays`" in reconcile("validate", code=1).err


def test_a_part_of_the_manifests_leaves_patches_without_a_match(reconcile: Command) -> None:
    reconcile.write("manifests/data.yaml", volume())
    reconcile.write("manifests/logs.yaml", volume("logs"))
    reconcile.write(
        "overlays/prod/a.yaml",
        "Volume/shop/data: {spec: {size_gb: 20}}\nVolume/shop/logs: {spec: {size_gb: 30}}\n",
    )
    reconcile.write("overlays/prod/own.yaml", volume("own"))
    part = reconcile("build manifests/logs.yaml --env prod").out
    assert "size_gb: 30" in part
    assert "name: own" not in part
    both = reconcile("build manifests/logs.yaml overlays --env prod").out
    assert "name: own" in both
    assert "name: data" not in both


def test_patches_that_match_nothing_are_no_mistake_while_a_file_cannot_be_read(reconcile: Command) -> None:
    reconcile.write("manifests/data.yaml", "a: [\n")
    reconcile.write("overlays/prod/a.yaml", "Volume/shop/data: {spec: {size_gb: 20}}\n")
    told = reconcile("validate --env prod", code=1).err
    assert "yaml-syntax" in told
    assert "overlay-matches-nothing" not in told


def test_a_resource_knows_which_values_its_own_file_does_not_give(tmp_path: Path) -> None:
    write_project(
        tmp_path,
        {
            "manifests/a.yaml": volume(more=", snapshot_retention: 14"),
            "overlays/prod/a.yaml": "Volume/shop/data:\n  spec: {size_gb: 20, snapshot_retention: null}\n",
        },
    )
    (resource,) = load_prod(tmp_path).resources
    assert resource.file == "manifests/a.yaml"
    assert {path: (span.file, span.line, span.column) for path, span in resource.inherited.items()} == {
        ("spec", "size_gb"): ("overlays/prod/a.yaml", 2, 19),
        ("spec", "snapshot_retention"): ("overlays/prod/a.yaml", 2, 43),
    }
    assert "snapshot_retention" not in resource.spec.model_fields_set


def test_a_policy_gives_what_an_overlay_took_away(tmp_path: Path) -> None:
    policy = (
        "---\napiVersion: reconciler/v1\nkind: RetentionPolicy\nmetadata: {name: all}\n"
        "spec: {selector: {}, snapshot_retention: 30}\n"
    )
    write_project(
        tmp_path,
        {
            "manifests/a.yaml": volume(more=", snapshot_retention: 14") + policy,
            "overlays/prod/a.yaml": "Volume/shop/data: {spec: {size_gb: 20, snapshot_retention: null}}\n",
        },
    )
    (resource,) = load_prod(tmp_path).resources
    assert resource.spec.snapshot_retention == 30
    given, overlaid = resource.span("spec", "snapshot_retention"), resource.span("spec", "size_gb")
    assert given is not None
    assert overlaid is not None
    assert (given.file, overlaid.file) == ("manifests/a.yaml", "overlays/prod/a.yaml")


def test_a_file_with_a_secret_is_looked_for_beside_the_overlay_that_names_it(tmp_path: Path) -> None:
    write_project(
        tmp_path,
        {
            "manifests/a.yaml": secret("OURS", "file: ours.pw") + secret("THEIRS", "file: theirs.pw"),
            "overlays/prod/a.yaml": "Secret/shop/THEIRS: {spec: {value_from: {file: prod.pw}}}\n",
        },
    )
    kind = find_kinds()["Secret"]
    refs = [secret_of(kind, resource) for resource in load_prod(tmp_path).resources]
    assert [ref and ref.name for ref in refs] == ["manifests/ours.pw", "overlays/prod/prod.pw"]


def test_many_files_are_built_in_their_order(tmp_path: Path) -> None:
    files = {f"manifests/{number:03}.yaml": volume(f"v{number}") for number in range(250)}
    write_project(tmp_path, files | {"overlays/prod/a.yaml": '"*/*/*": {spec: {size_gb: 20}}\n'})
    built = [each.address.name for each in load_prod(tmp_path).effective]
    assert built == [f"v{number}" for number in range(250)]
    base = load([str(tmp_path / "manifests")], root=tmp_path, keep=True)
    assert [each.address.name for each in base.effective] == built


def test_no_environment_can_be_named_that_leads_elsewhere(reconcile: Command) -> None:
    reconcile.write("manifests/a.yaml", volume())
    reconcile.write("overlays/prod/a.yaml", "# nothing differs\n")
    for name in ("..", "../prod", "prod/", "/prod", "Prod", "-x", "pro d", "prod\n", "a" * 64):
        told = reconcile(f"validate --env='{name}'", code=1).err
        assert "is not a valid environment name" in told


def test_an_unknown_environment_names_those_there_are(reconcile: Command) -> None:
    settings = "overlays: of\nenvironments: {test: {platform: {rate_limit: null}}}\n"
    reconcile.write("reconcile.yaml", settings)
    reconcile.write("manifests/a.yaml", volume())
    reconcile.write("of/prod/a.yaml", "# nothing differs\n")
    told = reconcile("validate --env prd", code=1).err
    assert "error: there is no environment `prd`" in told
    assert "did you mean `prod`? environments are prod, test; one is a folder such as of/prd" in told
    assert reconcile("validate --env test").out == reconcile("validate --env base").out


def test_the_environment_is_also_taken_from_a_variable(reconcile: Command) -> None:
    reconcile.write("manifests/a.yaml", volume())
    reconcile.write("overlays/prod/a.yaml", "Volume/shop/data: {spec: {size_gb: 20}}\n")
    reconcile.variables["RECONCILE_ENV"] = "prod"
    assert "size_gb: 20" in reconcile("build").out
