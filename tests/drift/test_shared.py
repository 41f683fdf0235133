"""Accepting drift of one environment into manifests that others share."""

from pathlib import Path

import pytest

from reconciler.core.diagnostics import Diagnostic
from tests.drift.stage import VOLUME, Stage

SHARED = "manifests/main.yaml"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path, {"Volume/shop/data": {"size_gb": 40}}, environment="prod")


def told(stage: Stage) -> list[Diagnostic]:
    done = stage.accept()
    assert not done.refused
    assert [each.path for each in done.accepted] == ["size_gb"]
    assert not stage.drift().plan.changes
    return list(done.remarks)


def test_a_value_that_other_environments_share_is_written_with_a_warning(stage: Stage) -> None:
    file = stage.write(VOLUME)
    stage.write("Volume/shop/data: {spec: {snapshot_retention: 30}}\n", "overlays/prod/p.yaml")
    (warning,) = told(stage)
    assert "size_gb: 40" in file.read_text()
    assert (warning.code, str(warning.severity)) == ("shared-value", "warning")
    assert warning.span is not None
    assert warning.span.place == f"{SHARED}:4:30"
    assert "every environment" in warning.message
    assert "write 10 here again" in warning.help
    assert "`Volume/shop/data: {spec: {size_gb: 40}}` into overlays/prod" in warning.help


def test_what_the_warning_offers_keeps_the_value_to_the_environment(stage: Stage) -> None:
    stage.write(VOLUME)
    stage.write('"*/shop/*": {metadata: {app: shop-prod}}\n', "overlays/prod/p.yaml")
    stage.moved = {"Volume/shop-prod/data": {"size_gb": 40}}
    found = stage.drift()
    (warning,) = told(stage)
    stage.write(VOLUME)
    stage.write(warning.help.split("`")[3] + "\n", "overlays/prod/q.yaml")
    assert found.plan.changes
    assert not stage.drift().plan.changes


def test_a_manifest_of_the_environment_alone_is_written_without_a_warning(stage: Stage) -> None:
    stage.write("", SHARED)
    own = stage.write(VOLUME, "overlays/prod/data.yaml")
    assert told(stage) == []
    assert "size_gb: 40" in own.read_text()


def test_without_an_environment_the_warning_names_no_one(stage: Stage) -> None:
    stage.environment = ""
    stage.write(VOLUME)
    stage.write("Volume/shop/data: {spec: {snapshot_retention: 30}}\n", "overlays/prod/p.yaml")
    (warning,) = told(stage)
    assert "to limit it to one environment" in warning.help
    assert "into overlays/NAME" in warning.help


def test_where_there_are_no_environments_nothing_is_said(stage: Stage) -> None:
    stage.environment = ""
    stage.write(VOLUME)
    assert told(stage) == []


@pytest.mark.parametrize(
    "overlay",
    [
        '"*/shop/*": {metadata: {app: shop-prod}}\n',
        '"*/shop/*": {metadata: {app: shop-prod}}\nVolume/shop/data: {spec: {snapshot_retention: 30}}\n',
    ],
)
def test_a_resource_that_the_overlay_moves_into_another_app_is_accepted(stage: Stage, overlay: str) -> None:
    file = stage.write(VOLUME)
    stage.write(overlay, "overlays/prod/p.yaml")
    stage.moved = {"Volume/shop-prod/data": {"size_gb": 40}}
    (warning,) = told(stage)
    assert file.read_text() == VOLUME.replace("size_gb: 10", "size_gb: 40")
    assert "`Volume/shop/data: {spec" in warning.help  # as patches select it


def test_a_file_that_now_holds_another_app_is_refused_also_when_the_overlay_moves_it(stage: Stage) -> None:
    from reconciler.drift.accept import accept

    file = stage.write(VOLUME)
    stage.write('"*/shop/*": {metadata: {app: shop-prod}}\n', "overlays/prod/p.yaml")
    stage.moved = {"Volume/shop-prod/data": {"size_gb": 40}}
    found, desired = stage.drift(), stage.desired()
    file.write_text(VOLUME.replace("app: shop", "app: show"))
    (refusal,) = accept(found, desired, stage.root, []).refused
    assert "changed while" in refusal.why.message


@pytest.mark.parametrize("key", ["Volume/shop/data", "'*/*/data'"])
def test_for_a_value_that_an_overlay_brings_the_manifest_is_not_offered(stage: Stage, key: str) -> None:
    file = stage.write(VOLUME)
    stage.write(f"{key}: {{spec: {{size_gb: 20}}}}\n", "overlays/prod/p.yaml")
    done = stage.accept()
    (refusal,) = done.refused
    assert (done.accepted, file.read_text()) == ((), VOLUME)
    assert refusal.why.span is not None
    assert refusal.why.span.file == "overlays/prod/p.yaml"
    assert "manifests/main.yaml" not in refusal.why.help
    assert "Volume/shop/data: {spec: {size_gb: 40}}" in refusal.why.help


def test_for_a_value_of_a_policy_the_manifest_is_offered(stage: Stage) -> None:
    """Also where the policy has it from an overlay: what a manifest says itself wins over any policy."""
    policy = (
        "apiVersion: reconciler/v1\nkind: RetentionPolicy\nmetadata: {name: all}\n"
        "spec: {selector: {}, snapshot_retention: 14}\n"
    )
    stage.write(VOLUME.replace(", snapshot_retention: 14", "") + "---\n" + policy)
    stage.write("RetentionPolicy/all: {spec: {snapshot_retention: 20}}\n", "overlays/prod/p.yaml")
    stage.moved = {"Volume/shop/data": {"snapshot_retention": 5}}
    (refusal,) = stage.accept().refused
    assert "write `snapshot_retention: 5` into the manifest at manifests/main.yaml:3:18" in refusal.why.help
