"""What the writer writes, the composer reads back as it was."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.model import Path
from reconciler.manifests.reading.compose import compose
from reconciler.manifests.writing.write import Commented, write

# What YAML 1.1, YAML 1.2 or a careless writer takes for something else than text.
TRAPS = [
    *[
        "no",
        "y",
        "Off",
        "TRUE",
        "null",
        "~",
        "017",
        "0o17",
        "0x1f",
        "1:30",
        "1e3",
        ".inf",
        "2026-01-01",
        "<<",
    ],
    *[
        "=",
        "-",
        "?",
        "---",
        "...",
        "%TAG",
        "#x",
        "*a",
        "&a",
        "!x",
        "@x",
        "`x",
        "|x",
        ">x",
        "[",
        "]",
        "{",
        "}",
    ],
    *(",", "", " ", "a: b", "a #b", "- a", "a:", " a", "a ", "\ufeff", "\x85", "\u2028", "\x7f"),
]

TEXT = st.text(st.characters(codec="utf-8"), max_size=20) | st.sampled_from(TRAPS)
SCALARS = st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False) | TEXT
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)
DOCUMENTS = st.lists(st.dictionaries(TEXT, VALUES, min_size=1, max_size=4), min_size=1, max_size=3)


def read(text: str) -> list[Any]:
    composed = compose(text.encode(), "written.yaml")
    assert composed.complete, composed.diagnostics
    return [document.value for document in composed.documents]


@given(DOCUMENTS, TEXT, TEXT)
def test_whatever_is_written_is_read_back_as_it_was(
    documents: list[dict[str, Any]], remark: str, key: str
) -> None:
    comments: dict[Path, list[str]] = {(): [remark], (key,): [remark], ("spec", key): [remark]}
    assert read(write([Commented(each, comments) for each in documents], head=[remark])) == documents


@given(DOCUMENTS, TEXT)
def test_a_disabled_document_is_a_comment_and_the_same_document_once_uncommented(
    documents: list[dict[str, Any]], remark: str
) -> None:
    assert read(write([Commented(each, {(): [remark]}, disabled=True) for each in documents])) == []
    lines = write([Commented(each, disabled=True) for each in documents]).splitlines()
    assert read("\n".join(line[2:] for line in lines)) == documents


def test_text_is_quoted_only_where_it_would_be_read_as_something_else() -> None:
    spec = {"plain": "iad-2", "number": "16", "flag": "no", "list": [1, {"a": None, "b": [True]}], "none": []}
    comments: dict[Path, list[str]] = {("spec", "flag"): ["why"], ("spec", "power"): ["power: x"]}
    assert write([Commented({"spec": spec}, comments)]) == (
        'spec:\n  plain: iad-2\n  number: "16"\n  # why\n  flag: "no"\n'
        "  list:\n    - 1\n    - a: null\n      b:\n        - true\n  none: []\n  # power: x\n"
    )


@pytest.mark.parametrize("value", [{"a": "\ud800"}, {"a": b"x"}])
def test_what_yaml_has_no_text_for_is_refused(value: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"surrogate|cannot be written"):
        write([Commented(value)])


@pytest.mark.parametrize("value", [1, "text", {}, {"a": [1]}, [{"a": 1}]])
def test_a_key_of_any_length_is_read_back(value: Any) -> None:
    document = {"\u2028" * 400: value, "k" * 3000: value, "last": 1}
    assert read(write([Commented(document)])) == [document]
