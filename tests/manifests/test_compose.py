"""What YAML text becomes, and where each value of it stands."""

import pytest
import yaml

from reconciler.core.model import Path
from reconciler.manifests.reading.compose import Composed, Document, compose

Place = tuple[int, int, int]  # line, column, end column


def document(text: str) -> Document:
    composed = compose(text.encode(), "a.yaml")
    assert composed.diagnostics == []
    assert len(composed.documents) == 1
    return composed.documents[0]


def place(found: Document, *path: str | int) -> Place:
    return found.spans[path][1:4]


def key_place(found: Document, *path: str | int) -> Place:
    return found.key_spans[path][1:4]


def test_block_values_and_keys_have_exact_places() -> None:
    found = document("kind: Volume\nspec:\n  size_gb: 10\n  zones: \n  - ams\n  - 'fra'\n")
    assert found.value == {"kind": "Volume", "spec": {"size_gb": 10, "zones": ["ams", "fra"]}}
    assert place(found) == (1, 1, 2)
    assert place(found, "kind") == (1, 7, 13)
    assert key_place(found, "spec") == (2, 1, 5)
    assert place(found, "spec") == (3, 3, 4)
    assert key_place(found, "spec", "size_gb") == (3, 3, 10)
    assert place(found, "spec", "size_gb") == (3, 12, 14)
    assert place(found, "spec", "zones", 1) == (6, 5, 10)
    assert ("spec", "zones", 1) not in found.key_spans


def test_flow_collections_on_one_line_are_marked_whole() -> None:
    found = document("{a: [1, {b: 2}], c: [\n3]}\n")
    assert found.value == {"a": [1, {"b": 2}], "c": [3]}
    assert place(found, "a") == (1, 5, 16)
    assert place(found, "a", 1) == (1, 9, 15)
    assert place(found, "a", 1, "b") == (1, 13, 14)
    assert place(found, "c") == (1, 21, 22)
    assert place(found, "c", 0) == (2, 1, 2)


def test_columns_count_characters_behind_emoji_and_wide_text() -> None:
    found = document("{name: 🎉漢字é, size: 3}\n")
    assert place(found, "name") == (1, 8, 12)
    assert place(found, "size") == (1, 20, 21)


def test_windows_line_ends_move_nothing() -> None:
    unix, windows = document("a: 1\nb:\n  c: x\n"), document("a: 1\r\nb:\r\n  c: x\r\n")
    assert unix.value == windows.value
    assert dict(unix.spans) == dict(windows.spans)
    assert dict(unix.key_spans) == dict(windows.key_spans)


def test_a_text_over_several_lines_is_marked_to_the_end_of_its_first() -> None:
    found = document('block: |\n  one\n  two\nquoted: "one\n  two"\nplain: one\n  two\nnext: 1\n')
    assert found.value == {"block": "one\ntwo\n", "quoted": "one two", "plain": "one two", "next": 1}
    assert place(found, "block") == (1, 8, 9)
    assert place(found, "quoted") == (4, 9, 13)
    assert place(found, "plain") == (6, 8, 11)
    assert place(found, "next") == (8, 7, 8)


def test_a_missing_value_stands_behind_its_key() -> None:
    found = document("spec:\n  region:\n")
    assert found.value == {"spec": {"region": None}}
    assert place(found, "spec", "region") == (2, 10, 10)


def test_a_byte_order_mark_moves_nothing() -> None:
    composed = compose(b"\xef\xbb\xbfa: 1\n", "a.yaml")
    assert key_place(composed.documents[0], "a") == (1, 1, 2)


def test_empty_documents_are_left_out() -> None:
    composed = compose(b"---\n---\n# nothing\n---\na: 1\n---\nnull\n...\n---\nb: 2\n", "a.yaml")
    assert composed.diagnostics == []
    assert [found.value for found in composed.documents] == [{"a": 1}, {"b": 2}]
    assert key_place(composed.documents[1], "b") == (10, 1, 2)


@pytest.mark.parametrize("data", [b"", b"\n", b"# only a comment\n", b"\xef\xbb\xbf"])
def test_a_file_of_nothing_has_no_documents(data: bytes) -> None:
    assert compose(data, "a.yaml") == Composed([], [])


SCALARS = (
    *("~", "null", "Null", "true", "False", "yes", "No", "ON", "off", "y", "n", "nope", "truely"),
    *("0", "10", "-3", "+7", "017", "0o17", "08", "0x1F", "0b101", "1_000", "1:30", "-1:30", "0b_", "0x_"),
    *("1.5", "-.5", "1e3", "1.0e+3", ".inf", "-.INF", "1:30.5", "=", "a b", "-", "2026", "1.2.3", "é"),
)


@pytest.mark.parametrize("text", SCALARS)
def test_plain_scalars_mean_what_pyyaml_says(text: str) -> None:
    try:
        expected = yaml.safe_load(f"- {text}")[0]
    except (ValueError, yaml.YAMLError):
        expected = text  # PyYAML breaks on `0b_` and `=`; here they are text
    found = compose(f"- {text}\n".encode(), "a.yaml").documents[0].value[0]
    assert (type(found), found) == (type(expected), expected)


@pytest.mark.parametrize("text", ["2026-01-31", "2026-01-31T12:00:00Z", "2026-01-31 12:00:00 +1"])
def test_dates_stay_text(text: str) -> None:
    assert document(f"at: {text}").value == {"at": text}


def test_quoted_scalars_are_always_text() -> None:
    assert document("""[ "no", '10', "~", 'null', "1:30" ]""").value == ["no", "10", "~", "null", "1:30"]


@pytest.mark.parametrize("text", ["no", "Yes", "on", "OFF", "017", "-010", "1:30", "1:30.5", "1_000"])
def test_scalars_that_look_like_something_else_are_noted(text: str) -> None:
    path: Path = ("spec", "list", 0)
    assert document(f"spec: {{list: [{text}]}}").surprises == {path: text}
    assert document(f"spec: {{list: ['{text}']}}").surprises == {}


@pytest.mark.parametrize("text", ["true", "False", "10", "0", "0x1F", "0b1", "1.5", "~", "text"])
def test_scalars_that_look_like_what_they_are_are_not_noted(text: str) -> None:
    assert document(f"a: {text}").surprises == {}


def test_a_number_too_long_to_be_one_is_text() -> None:
    long = "1" + ":59" * 100_000
    assert document(f"a: {long}").value == {"a": long}


def test_an_alias_repeats_a_value_and_stands_where_it_is_written() -> None:
    found = document("base: &base {x: 1, y: [2]}\nuse: *base\n")
    assert found.value["use"] == {"x": 1, "y": [2]}
    assert place(found, "use") == (2, 6, 11)
    assert ("use", "x") not in found.spans


def test_merge_keys_fill_in_what_the_mapping_does_not_say() -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc:\n  <<: [*a, *b]\n  x: 9\nd: {<<: *b}\n"
    found = document(text)
    assert found.value == yaml.safe_load(text)
    assert found.value["c"] == {"x": 9, "y": 1, "z": 2}
    assert place(found, "c", "z") == (4, 12, 14)
    assert place(found, "c", "x") == (5, 6, 7)
    assert place(found, "d", "y") == (6, 9, 11)


def test_what_a_merge_key_brings_from_a_mapping_written_there_stands_in_that_mapping() -> None:
    text = (
        "a: &a {x: 1}\nc:\n  <<:\n    y: 2\n    deep:\n      list: [5, {k: 6}]\n      far: *a\n  y: 3\n"
        "d: {<<: [*a, {x: 0, z: 7, <<: {w: 8}}]}\nl: &l [*a, {v: 9}]\ne: {<<: *l}\n"
    )
    found = document(text)
    assert found.value == yaml.safe_load(text)
    assert place(found, "c", "deep", "list", 0) == (6, 14, 15)
    assert place(found, "c", "deep", "list", 1, "k") == (6, 21, 22)
    assert place(found, "c", "deep", "far") == (7, 12, 14)
    assert ("c", "deep", "far", "x") not in found.spans
    assert place(found, "c", "y") == (8, 6, 7)
    assert place(found, "d", "x") == (9, 10, 12)
    assert place(found, "d", "z") == (9, 24, 25)
    assert place(found, "d", "w") == (9, 35, 36)
    assert found.key_spans["d", "z"][1:4] == (9, 21, 22)
    assert place(found, "e", "v") == place(found, "e", "x") == (11, 9, 11)


def test_a_quoted_merge_key_is_an_ordinary_key() -> None:
    assert document('"<<": {x: 1}\n').value == {"<<": {"x": 1}}
    assert document('{b: {"<<": 1}, c: &c {x: 1}, d: {<<: *c}}').value["d"] == {"x": 1}


def test_keys_that_need_quotes_do_not_make_later_plain_ones_pass() -> None:
    assert compose(b'"no": 1\n', "a.yaml").diagnostics == []
    assert [problem.code for problem in compose(b"no: 1\n", "b.yaml").diagnostics] == ["non-string-key"]


def test_documents_of_one_shape_share_their_paths() -> None:
    first, second = (compose(data, "a").documents[0] for data in (b"a: {b: 1}", b"a: {b: 222}"))
    assert all(one is other for one, other in zip(first.spans, second.spans, strict=True))
    assert [item.spans["a", "b"].end_column for item in (first, second)] == [9, 11]


def test_documents_before_a_syntax_error_are_kept() -> None:
    composed = compose(b"a: 1\n---\nb: [\n---\nc: 3\n", "a.yaml")
    assert [found.value for found in composed.documents] == [{"a": 1}]
    assert [problem.code for problem in composed.diagnostics] == ["yaml-syntax"]
    assert not composed.complete


def test_a_document_with_a_duplicate_key_hides_no_other() -> None:
    composed = compose(b"a: 1\n---\nb: 1\nb: 2\n---\nc: 3\n", "a.yaml")
    assert [found.value for found in composed.documents] == [{"a": 1}, {"c": 3}]
    assert [problem.code for problem in composed.diagnostics] == ["duplicate-key"]
