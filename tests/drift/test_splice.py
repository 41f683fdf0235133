"""Values put in the place of others: nothing else of the text changes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.model import Path
from reconciler.manifests.reading.compose import compose
from reconciler.manifests.writing.rewrite import Scalar, find_tokens, splice


def put(text: str, path: Path, value: Scalar, number: int = 0) -> str:
    """`text` with `value` at `path` of its document `number`."""
    composed = compose(text.encode(), "m.yaml")
    assert composed.complete, composed.diagnostics
    span = composed.documents[number].spans[path]
    place = (span.line, span.column)
    return splice(text, [(find_tokens(text, {place})[place], value)])


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        ("a: 10", 20, "a: 20"),
        ("a: 10   # ten", 20, "a: 20   # ten"),
        ("a:    10\r\nb: 1\r\n", 20, "a:    20\r\nb: 1\r\n"),
        ("{a: 10}", 20, "{a: 20}"),
        ("{b: {c: [1]}, a: 10, d: 1}", 20, "{b: {c: [1]}, a: 20, d: 1}"),
        ('{"a":10}', 20, '{"a":20}'),
        ("a: &ten 10", 20, "a: &ten 20"),
        ("a: true # yes", False, "a: false # yes"),
        ("a: ams", "fra", "a: fra"),
        ("a: 'ams'", "fra", "a: 'fra'"),
        ('a: "ams"', "fra", 'a: "fra"'),
        ("a: 'ams'", "it's", "a: 'it''s'"),
        ('a: "ams"', 'b"c\\d', 'a: "b\\"c\\\\d"'),
        ("a: ams", "no", 'a: "no"'),
        ("a: ams", "017", 'a: "017"'),
        ("{a: ams}", "x, y: z", '{a: "x, y: z"}'),
        ("a: ams", "x # y", 'a: "x # y"'),
        ("a: ams", "", 'a: ""'),
        ("a: ams", "fdaa:0:1::3", 'a: "fdaa:0:1::3"'),
        ("a: ams", "1e3", 'a: "1e3"'),  # a number to readers of YAML 1.2
        ("a: 'ams'", "b\nc", 'a: "b\\nc"'),
        ("a: ams", "b\u2028", 'a: "b\\u2028"'),
        ("a: ams", "😀", 'a: "😀"'),
        ('# 😀\n? 😀😀\n: 1\n"😀": {b: 😀, a: 10}\n', 20, '# 😀\n? 😀😀\n: 1\n"😀": {b: 😀, a: 20}\n'),
    ],
)
def test_one_value_changes_and_its_quotes_stay(before: str, value: Scalar, after: str) -> None:
    path: Path = ("😀", "a") if before.startswith("#") else ("a",)
    assert put(before, path, value) == after


def test_a_value_in_a_later_document_is_found_there() -> None:
    text = "a: 10\n--- # two\na: 10\n...\n# three\n---\na: 10"
    assert put(text, ("a",), 20, number=2) == "a: 10\n--- # two\na: 10\n...\n# three\n---\na: 20"


@pytest.mark.parametrize(
    ("text", "line", "column", "obstacle", "see"),
    [
        ("a: &x 10\nb: *x\n", 2, 4, "comes from the anchor `&x`", (1, 4)),
        ("a: &x 10\nb: *x\n", 1, 4, "is read a second time, as `*x`", (2, 4)),
        ("a: &x {c: 10}\nb: *x\n", 1, 11, "is read a second time, as `*x`", (2, 4)),
        ("a: |\n  10\n", 1, 4, "spans several lines", None),
        ("a: ams\n  fra\n", 1, 4, "spans several lines", None),
        ("a: &x\n  ams\n", 1, 4, "spans several lines", None),
        ("a: {b: 1}\n", 1, 4, "is not a single one", None),
        ("a: &x 1\n---\nb: &x 1\nc: *x\n", 3, 4, "is read a second time, as `*x`", (4, 4)),
        ("a: &x 1\n---\nb: &x 1\nc: *x\n", 1, 4, "", None),
    ],
)
def test_what_is_shared_or_no_single_value_is_not_replaced(
    text: str, line: int, column: int, obstacle: str, see: tuple[int, int] | None
) -> None:
    token = find_tokens(text, {(line, column)})[line, column]
    assert (token.obstacle, token.see) == (obstacle, see)


# --- any manifest, any value ---

_WORDS = st.sampled_from(["ams", "fra", "it's", "no", "1:30", "😀", "a b", "x: y", "[", "- z", "#", "~", ""])
_SCALARS = st.one_of(st.integers(-5, 10**6), st.booleans(), _WORDS, st.text(max_size=6))
_COMMENTS = st.sampled_from(["", " # keep", "   # 😀 {a: 1}", "\t# tab"])
_BREAKS = st.sampled_from(["\n", "\r\n"])


@st.composite
def manifests(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A text of one mapping with comments, and its keys: blocks, flows, quotes of all sorts."""
    lines: list[str] = []
    keys = [f"k{number}" for number in range(draw(st.integers(1, 6)))]
    for key in keys:
        value = draw(_SCALARS)
        # JSON is how any value can be written; the rest of the forms, where they can hold it.
        forms = [json.dumps(value)] if _is_yaml(json.dumps(value), value) else ["0"]
        if isinstance(value, str) and value.isprintable() and value:
            forms.append("'" + value.replace("'", "''") + "'")
            forms += [value] if _is_yaml(value, value) else []
        if draw(st.booleans()):
            lines.append(f"{draw(st.sampled_from(['', '  ']))}# 😀 {key}: 1")
        written = draw(st.sampled_from(forms))
        lines.append(f"{key}:{draw(st.sampled_from([' ', '    ']))}{written}{draw(_COMMENTS)}")
    return draw(_BREAKS).join(lines) + draw(st.sampled_from(["", "\n"])), keys


def _is_yaml(text: str, value: Scalar) -> bool:
    # In a block, as `manifests` writes it: a `-` alone is a value only between braces.
    composed = compose(f"k: {text}".encode(), "m.yaml") if "\n" not in text else None
    return bool(composed and composed.documents and composed.documents[0].value == {"k": value})


@given(manifests(), _SCALARS, st.data())
def test_of_any_manifest_one_line_changes_and_reads_as_wanted(
    manifest: tuple[str, list[str]], value: Scalar, data: st.DataObject
) -> None:
    text, keys = manifest
    key = data.draw(st.sampled_from(keys))
    changed = put(text, (key,), value)
    before, after = text.splitlines(keepends=True), changed.splitlines(keepends=True)
    assert len(before) == len(after)
    differing = [number for number, line in enumerate(before) if line != after[number]]
    assert len(differing) <= 1
    (was,) = compose(text.encode(), "m.yaml").documents
    (now,) = compose(changed.encode(), "m.yaml").documents
    assert repr(now.value) == repr(was.value | {key: value})
    # Comments, and all before the value, are the same characters.
    for number in differing:
        assert after[number].startswith(before[number][: before[number].index(":") + 2])
