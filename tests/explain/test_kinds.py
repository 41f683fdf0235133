"""Every field of every kind is described, and what the pages say of it holds."""

from pathlib import Path

import pytest
import yaml

from reconciler.core.diagnostics import has_errors
from reconciler.core.model import Effect
from reconciler.guardrails.kinds import find_guardrails
from reconciler.kinds.base import Kind
from reconciler.manifests.authoring.explain import UnknownTopic, find_field
from reconciler.manifests.authoring.reference import FieldPage, kind_page
from reconciler.manifests.load import load
from reconciler.policies import find_manifest_kinds, find_policies

KINDS = {**find_manifest_kinds(), **find_guardrails()}
PAGES = {name: kind_page(kind) for name, kind in KINDS.items()}
FIELDS = [
    pytest.param(name, field, id=f"{name}.{field.path}")
    for name, page in PAGES.items()
    for field in page.all_fields()
]

each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))


@each_kind
def test_a_kind_says_what_it_is(kind: Kind) -> None:
    assert len(PAGES[kind.name].description.split()) > 5


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_a_field_says_what_it_means_and_has_an_example(name: str, field: FieldPage) -> None:
    assert len(field.description) > 10, "give it a `description=`"
    assert field.description[-1] == "."
    assert field.type
    assert field.examples, "give it `examples=[…]`, or a value in `Kind.example`"


@each_kind
def test_a_kind_says_of_each_field_what_changing_it_means(kind: Kind) -> None:
    compared, others = (
        {field.name for field in kind.fields},
        {name for name in kind.remarks if "." not in name},
    )
    assert not compared & others
    assert compared | others == kind.Spec.model_fields.keys() or kind.name in {
        **find_policies(),
        **find_guardrails(),
    }


@each_kind
def test_a_remark_about_a_field_below_another_one_reaches_it(kind: Kind) -> None:
    for name, words in kind.remarks.items():
        if "." in name:
            assert find_field(PAGES[kind.name], name).change == words


@each_kind
def test_the_example_of_a_kind_is_a_valid_manifest(kind: Kind, tmp_path: Path) -> None:
    manifests = tmp_path / "manifests.yaml"
    manifests.write_text(PAGES[kind.name].example, encoding="utf-8")
    loaded = load([str(manifests)], root=tmp_path, kinds=KINDS)
    others_missed = {
        "Extension": {"unknown-reference"},
        "Moved": {"move-undeclared"},
        "RestoreDrill": {"unknown-reference"},
        "RetentionPolicy": {"unused-policy"},
    }
    assert {problem.code for problem in loaded.diagnostics} == others_missed.get(kind.name, set())


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_the_examples_of_a_field_are_valid(name: str, field: FieldPage, tmp_path: Path) -> None:
    """Put into the kind's example, they make no field invalid: not its type, its bounds, nor its name."""
    about_values = {"wrong-type", "out-of-range", "not-allowed", "invalid-value", "bad-name", "unknown-field"}
    for example in field.examples:
        manifest = _merged(yaml.safe_load(PAGES[name].example), yaml.safe_load(example))
        (tmp_path / "manifests.yaml").write_text(yaml.safe_dump(manifest), encoding="utf-8")
        loaded = load([str(tmp_path / "manifests.yaml")], root=tmp_path, kinds=KINDS)
        assert [problem for problem in loaded.diagnostics if problem.code in about_values] == []


def _merged(whole: object, part: object) -> object:
    if not isinstance(whole, dict) or not isinstance(part, dict):
        return part
    return {**whole, **{name: _merged(whole.get(name), value) for name, value in part.items()}}


def test_a_field_is_described_in_full() -> None:
    count = find_field(PAGES["Volume"], "count")
    assert (count.path, count.type, count.required) == ("spec.count", "integer", False)
    assert count.limits == ("at least 1", "at most 1000")
    name = find_field(PAGES["Volume"], "metadata.name")
    assert name.required
    deletion = find_field(PAGES["Volume"], "lifecycle.deletion")
    assert (deletion.type, deletion.default) == ("one of `retain`, `delete`", "retain")
    plan = find_field(PAGES["PostgresCluster"], "plan")
    assert plan.type == "one of `basic`, `starter`, `launch`, `scale`, `Performance`"
    assert find_field(PAGES["Extension"], "read_regions").type == "list of text"
    assert find_field(PAGES["Volume"], "metadata.labels").type == "mapping of names to text"


def test_a_field_that_may_take_two_forms_shows_both() -> None:
    size = find_field(PAGES["Volume"], "size_gb")
    assert size.type == "integer (at least 1, at most 100000) or mapping {min, max}"
    assert [below.path for below in size.fields] == ["spec.size_gb.min", "spec.size_gb.max"]
    assert len(size.examples) == 2


def test_a_field_that_means_nothing_alone_is_shown_with_its_neighbours() -> None:
    (example,) = find_field(PAGES["Secret"], "value_from.timeout_s").examples
    assert yaml.safe_load(example)["spec"]["value_from"].keys() == {"exec", "timeout_s"}


def test_only_a_kind_with_fields_that_can_differ_is_said_to_ignore_some() -> None:
    ignoring = {
        name for name, page in PAGES.items() for field in page.all_fields() if ".ignore" in field.path
    }
    assert ignoring == {name for name, kind in KINDS.items() if kind.fields}
    for path in ("lifecycle.ignore", "lifecycle.ignore[].field"):
        (example,) = find_field(PAGES["Volume"], path).examples
        assert yaml.safe_load(example)["lifecycle"]["ignore"][0]["field"] == "size_gb"


@pytest.mark.parametrize(
    ("kind", "path", "found"),
    [
        ("Volume", "spec.from.volume", "spec.from.volume"),
        ("Volume", "from.volume", "spec.from.volume"),
        ("Volume", "metadata.labels.tier", "metadata.labels"),
        ("Volume", "compute.kernel_args[0]", "spec.compute.kernel_args"),
        ("Extension", "read_regions[]", "spec.read_regions"),
        ("PostgresCluster", "restore.pitr_time", "spec.restore.pitr_time"),
        ("Secret", "value_from.template", "spec.value_from.template"),
        ("RetentionPolicy", "selector.labels", "spec.selector.labels"),
        ("Machine", "spec.id", "spec.id"),
    ],
)
def test_a_path_leads_to_its_field(kind: str, path: str, found: str) -> None:
    assert find_field(PAGES[kind], path).path == found


@pytest.mark.parametrize("path", ["spec.nothing", "size_gb.most", "metadata.name.first", "specs.size_gb"])
def test_a_path_to_nothing_is_unknown(path: str) -> None:
    with pytest.raises(UnknownTopic):
        find_field(PAGES["Volume"], path)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("size_gb", ["a smaller one is refused", "what the platform shows"]),
        ("region", ["refused: create a new volume", "what the platform shows"]),
        ("snapshot_retention", ["carried out in place"]),
        ("machines_only", ["refused", "what was sent"]),
        ("compute.cpus", ["refused", "what was sent"]),
        ("from.volume", ["nothing"]),
        ("size_gb.max", ["refused if the live size is larger"]),
        ("lifecycle.deletion", [""]),
    ],
)
def test_a_field_says_what_its_change_means(path: str, words: list[str]) -> None:
    change = find_field(PAGES["Volume"], path).change
    assert [word for word in words if word not in change] == []


def test_every_effect_has_its_words() -> None:
    from reconciler.manifests.authoring.reference import _EFFECTS

    assert _EFFECTS.keys() == set(Effect)


def test_a_manifest_that_lacks_what_a_page_calls_required_is_invalid(tmp_path: Path) -> None:
    for name, page in PAGES.items():
        for field in page.all_fields():
            if field.required and field.path.count(".") == 1:
                block, key = field.path.split(".")
                manifest = yaml.safe_load(page.example)
                del manifest[block][key]
                (tmp_path / "manifests.yaml").write_text(yaml.safe_dump(manifest), encoding="utf-8")
                loaded = load([str(tmp_path / "manifests.yaml")], root=tmp_path)
                assert has_errors(loaded.diagnostics), f"{name}.{field.path}"
