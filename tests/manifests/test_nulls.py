"""A value that is written is a value: null is of no type, wherever it stands."""

import pytest

from tests.manifests.conftest import LoadFiles, codes, volume

HEAD = "apiVersion: reconciler/v1\n"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{size_gb: }", "expected an integer, found null"),
        ("{size_gb: ~}", "expected an integer, found null"),
        ("{region: null}", "expected text, found null"),
        ("{encrypted: Null}", "expected true or false, found null"),
        ("{from: null}", "expected a mapping, found null"),
        ("{from: {volume: ~}}", "expected text, found null"),
        ("{size_gb: {min: 1, max: }}", "expected an integer, found null"),
        ("{compute: {kernel_args: [a, ~]}}", "expected text, found null"),
        ("{compute: {cpu_kind: }}", "expected `shared` or `performance`, found null"),
        ("", "expected a mapping, found null"),
        ("null", "expected a mapping, found null"),
    ],
)
def test_a_null_in_a_spec_is_of_the_wrong_type(spec: str, message: str, load_files: LoadFiles) -> None:
    (problem,) = load_files({"a.yaml": volume("data", spec)}).diagnostics
    assert (problem.code, problem.message) == ("wrong-type", message)
    mapping = "a mapping" in message
    assert problem.help == (
        "indent its fields below it, or write `{}`" if mapping else "give it a value, or remove it"
    )
    assert problem.span is not None
    assert problem.span.line == 5


@pytest.mark.parametrize("metadata", [", labels: ", ", labels: {tier: }", ", id: ~"])
def test_a_null_in_metadata_is_of_the_wrong_type(metadata: str, load_files: LoadFiles) -> None:
    assert codes(load_files({"a.yaml": volume("data", metadata=metadata)})) == ["wrong-type"]


@pytest.mark.parametrize("lifecycle", ["", "{deletion: }", "{snapshot_before: ~}", "{timeout_s: null}"])
def test_a_null_in_a_lifecycle_is_of_the_wrong_type(lifecycle: str, load_files: LoadFiles) -> None:
    loaded = load_files({"a.yaml": volume("data", rest=f"lifecycle: {lifecycle}\n")})
    assert codes(loaded) == ["wrong-type"]


def test_a_null_that_an_alias_or_a_merge_brings_is_found_too(load_files: LoadFiles) -> None:
    spec = "{compute: &c {gpu_kind: ~}}"
    merged = "\n  <<: &base {region: }\n  size_gb: 1"
    loaded = load_files({"a.yaml": volume("one", spec), "b.yaml": volume("two", merged)})
    assert codes(loaded) == ["wrong-type", "wrong-type"]


def test_a_null_source_of_a_secret_is_of_the_wrong_type(load_files: LoadFiles) -> None:
    text = f"{HEAD}kind: Secret\nmetadata: {{name: A, app: shop}}\nspec: {{value_from: {{env: }}}}\n"
    (problem,) = load_files({"a.yaml": text}).diagnostics
    assert (problem.code, problem.message) == ("wrong-type", "expected text, found null")
    assert problem.hidden


@pytest.mark.parametrize("document", ["kind: ", "apiVersion: "])
def test_a_null_kind_or_version_is_refused(document: str, load_files: LoadFiles) -> None:
    assert codes(load_files({"a.yaml": document})) != []


def test_an_empty_text_and_the_word_null_in_quotes_are_no_nulls(load_files: LoadFiles) -> None:
    loaded = load_files({"a.yaml": volume("data", '{region: "null", compute: {gpu_kind: ""}}')})
    assert codes(loaded) == []
