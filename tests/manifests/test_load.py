"""From documents to resources: addresses, counts, references, defaults."""

import gc
from itertools import count
from weakref import ref

import pytest

from reconciler.core import garbage
from reconciler.core.diagnostics import Span
from reconciler.core.garbage import collector_paused
from reconciler.core.model import Address, Deletion, Lifecycle
from reconciler.reports.diagnostics import render
from tests.manifests.conftest import LoadFiles, codes, policy, volume

DATA = Address("Volume", "data", "shop")


def test_a_manifest_becomes_a_resource(load_files: LoadFiles) -> None:
    rest = "lifecycle: {deletion: delete, snapshot_before: [extend, delete], timeout_s: 60}\n"
    text = volume("data", "{size_gb: 10}", metadata=", id: vol_1, labels: {tier: prod}", rest=rest)
    loaded = load_files({"a.yaml": text})
    assert loaded.diagnostics == ()
    (resource,) = loaded.resources
    assert resource.address == DATA
    assert resource.spec.size_gb == 10
    assert resource.spec.model_fields_set == {"size_gb"}
    assert resource.lifecycle == Lifecycle(Deletion.DELETE, ("extend", "delete"), 60)
    assert resource.labels == {"tier": "prod"}
    assert resource.adopt_id == "vol_1"
    assert resource.span("spec", "size_gb") == Span("a.yaml", 5, 17, 19)


def test_a_lifecycle_that_is_not_written_is_the_careful_one(load_files: LoadFiles) -> None:
    (resource,) = load_files({"a.yaml": volume("data")}).resources
    assert resource.lifecycle == Lifecycle()


def test_a_count_makes_numbered_resources(load_files: LoadFiles) -> None:
    loaded = load_files({"a.yaml": volume("data", "{size_gb: 10, count: 3}")})
    assert [str(item.address) for item in loaded.resources] == [
        "Volume/shop/data",
        "Volume/shop/data[1]",
        "Volume/shop/data[2]",
    ]
    assert len({id(item.spec) for item in loaded.resources}) == 1


def test_one_broken_file_hides_no_problem_of_another(load_files: LoadFiles) -> None:
    loaded = load_files(
        {"a.yaml": "a: [", "b.yaml": volume("data", "{size_gb: ten}"), "c.yaml": volume("data")}
    )
    assert codes(loaded) == ["yaml-syntax", "wrong-type"]
    assert [item.address for item in loaded.resources] == [DATA]


def test_references_to_what_a_broken_file_may_declare_are_not_errors(load_files: LoadFiles) -> None:
    fork = volume("fork", "{from: {volume: data}}")
    assert codes(load_files({"a.yaml": fork})) == ["unknown-reference"]
    assert codes(load_files({"a.yaml": fork, "b.yaml": "a: ["})) == ["yaml-syntax"]
    assert codes(load_files({"a.yaml": fork, "b.yaml": volume("data", "{size: 1}")})) == ["unknown-field"]


def test_diagnostics_follow_files_and_lines(load_files: LoadFiles) -> None:
    loaded = load_files(
        {
            "a.yaml": volume("one", "{from: {volume: none}}") + volume("two", "{sise: 1}"),
            "b.yaml": volume("three", "{sise: 1}"),
        }
    )
    places = [(item.span.file, item.span.line) for item in loaded.diagnostics if item.span]
    assert places == sorted(places)
    assert len(places) == 3


def test_a_policy_gives_values_that_the_manifest_leaves_open(load_files: LoadFiles) -> None:
    loaded = load_files(
        {
            "a.yaml": volume("data") + volume("logs", "{size_gb: 1, snapshot_retention: 30}"),
            "policy.yaml": policy("all", "{selector: {}, snapshot_retention: 7, snapshot_max_age_h: 24}"),
        }
    )
    assert loaded.diagnostics == ()
    assert [str(item.address) for item in loaded.policies] == ["RetentionPolicy/all"]
    data, logs = loaded.resources
    assert data.spec.snapshot_retention == 7
    assert data.spec.model_fields_set == {"size_gb", "snapshot_retention"}
    assert data.span("spec", "snapshot_retention") == Span("policy.yaml", 5, 42, 43)
    assert data.objectives == {"snapshot_max_age_h": 24}
    assert data.span("objectives", "snapshot_max_age_h") == Span("policy.yaml", 5, 65, 67)
    assert logs.spec.snapshot_retention == 30
    assert logs.objectives == {"snapshot_max_age_h": 24}


def test_a_policy_reaches_every_volume_of_a_count(load_files: LoadFiles) -> None:
    loaded = load_files(
        {"a.yaml": volume("data", "{count: 2}") + policy("all", "{selector: {}, snapshot_retention: 7}")}
    )
    assert [item.spec.snapshot_retention for item in loaded.resources] == [7, 7]


def test_policies_that_agree_are_no_conflict(load_files: LoadFiles) -> None:
    same = [policy(name, "{selector: {}, snapshot_retention: 7}") for name in ("one", "two")]
    assert load_files({"a.yaml": volume("data") + "".join(same)}).diagnostics == ()


def test_an_explicit_value_settles_a_conflict_of_policies(load_files: LoadFiles) -> None:
    policies = [policy(f"p{days}", f"{{selector: {{}}, snapshot_retention: {days}}}") for days in (1, 2)]
    text = volume("data", "{snapshot_retention: 9}") + "".join(policies)
    assert load_files({"a.yaml": text}).diagnostics == ()


def test_an_unused_policy_is_not_blamed_while_documents_are_missing(load_files: LoadFiles) -> None:
    unused = policy("other", "{selector: {app: other}, snapshot_retention: 7}")
    assert codes(load_files({"a.yaml": unused})) == ["unused-policy"]
    assert codes(load_files({"a.yaml": unused, "b.yaml": "a: ["})) == ["yaml-syntax"]


@pytest.mark.parametrize("enabled", [True, False])
def test_nothing_that_was_loaded_is_looked_through_for_garbage(
    load_files: LoadFiles, enabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(garbage, "_uses", count())  # other tests have used it, too
    looks: list[int] = []

    def noted(phase: str, info: dict[str, int]) -> None:
        looks.append(info["generation"])

    gc.unfreeze()  # what another test may have frozen
    gc.collect()
    threshold = gc.get_threshold()
    gc.set_threshold(100, 10, 10)
    gc.callbacks.append(noted)
    try:
        if not enabled:
            gc.disable()
        with collector_paused():
            made: list[list[int]] = [[] for _ in range(10_000)]
            assert not gc.isenabled()
        assert gc.isenabled() == enabled
        assert looks == []
    finally:
        gc.enable()
        gc.callbacks.remove(noted)
        gc.set_threshold(*threshold)
    assert len(made) == 10_000
    assert gc.get_freeze_count() == 0


def test_a_process_that_lives_on_collects_its_garbage() -> None:
    class Cycle:
        def __init__(self) -> None:
            self.itself = self

    for _ in range(100):
        with collector_paused():
            left = ref(Cycle())
    gc.collect(0)  # of the youngest generation alone
    assert left() is None


def test_equal_specs_are_one_and_others_are_not(load_files: LoadFiles) -> None:
    specs = ("{size_gb: 10}", "{region: ams, size_gb: 10}", "{size_gb: 10}", "{size_gb: 11}")
    files = {f"{number}.yaml": volume(f"v{number}", spec) for number, spec in enumerate(specs)}
    first, second, third, fourth = (each.spec for each in load_files(files).resources)
    assert first is third
    assert (first.size_gb, second.region, fourth.size_gb) == (10, "ams", 11)
    assert first.model_fields_set == {"size_gb"}


@pytest.mark.parametrize("spec", ["{count: true}", "{count: 1.0}", "{count: '1'}", "{count: 1, size_gb: }"])
def test_a_spec_that_only_looks_like_a_valid_one_is_not_valid(load_files: LoadFiles, spec: str) -> None:
    files = {"a.yaml": volume("a", "{count: 1}"), "b.yaml": volume("b", spec)}
    found = load_files(files)
    assert codes(found) == codes(load_files({"b.yaml": files["b.yaml"]}))
    assert [problem.code for problem in found.diagnostics] != []


def test_a_problem_beside_a_spec_that_is_known_is_told_as_beside_any(load_files: LoadFiles) -> None:
    for broken in (
        volume("b", rest="lifecycle: {timeout_s: 0}\n"),
        volume("b", metadata=", lables: {a: b}"),
        volume("b").replace("name: b, ", ""),
    ):
        alone = load_files({"a.yaml": "", "b.yaml": broken}).diagnostics
        beside = load_files({"a.yaml": volume("a"), "b.yaml": broken}).diagnostics
        assert beside == tuple(each for each in alone if each.code != "empty-file")
        assert beside


def test_secrets_with_equal_specs_have_their_own(load_files: LoadFiles) -> None:
    text = "---\napiVersion: reconciler/v1\nkind: Secret\nmetadata: {name: %s, app: shop}\n"
    text += "spec: {value_from: {env: A}}\n"
    first, second = load_files({"a.yaml": text % "A" + text % "B"}).resources
    assert first.spec == second.spec
    assert first.spec is not second.spec


def test_the_garbage_collector_runs_again_after_loading(load_files: LoadFiles) -> None:
    assert gc.isenabled()
    load_files({"a.yaml": "a: ["})
    assert gc.isenabled()


@pytest.mark.parametrize(
    "spec",
    [
        "\n  vale_from: hunter2\n  region: ams",
        "\n  value: hunter2\n  size_gb: 0",
        "\n  password:\n    hunter2\n  size_gb: 0",
        "\n  compute: {cpus: 1, token: hunter2, gpus: -1}",
        " {size_gb: 0, password: hunter2}",
        " {password: hunter2, size_gb: 0}",
        " {password:\n    hunter2, size_gb: 0}",
        " {size_gb: 1, pin: 0x7e57, codes: [hunter2]}",
        "\n  pins: [0x7e57, no]",
    ],
)
def test_the_value_of_an_unknown_field_is_never_shown(load_files: LoadFiles, spec: str) -> None:
    """Its name may be that of a secret's field, misspelt or in the wrong manifest."""
    text = f"apiVersion: reconciler/v1\nkind: Volume\nmetadata: {{name: data, app: shop}}\nspec:{spec}\n"
    loaded = load_files({"a.yaml": text})
    assert "unknown-field" in {item.code for item in loaded.diagnostics}
    shown = render(loaded.diagnostics, lambda file, number: text.splitlines()[number - 1])
    assert [secret for secret in ("hunter2", "7e57", str(0x7E57)) if secret in shown] == []


def test_a_misplaced_field_is_shown_with_its_value(load_files: LoadFiles) -> None:
    text = (
        "apiVersion: reconciler/v1\nkind: Volume\nmetadata: {name: data, app: shop, size_gb: 7}\nspec: {}\n"
    )
    loaded = load_files({"a.yaml": text})
    assert "size_gb: 7}" in render(loaded.diagnostics, lambda file, number: text.splitlines()[number - 1])
