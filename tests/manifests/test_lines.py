"""Documents whose values are read line by line are those of `compose`; what is not certain is left to it."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.manifests.reading import lines
from reconciler.manifests.reading.compose import compose
from reconciler.manifests.reading.lines import Known, line_values
from tests.examples import times
from tests.manifests.conftest import volume
from tests.manifests.test_against_pyyaml import TOKENS
from tests.reliability.fuzz.mutation import make_files

USUAL = """\
# a comment
---
apiVersion: reconciler/v1  # another: one
kind: Volume

metadata:
  name: data-0
  labels: {tier: "prod", 'a b': [x, {y: null}]}
spec:
  from:
    volume: orders 2026-11-22T01:41:15Z
  size_gb: 10
  ratio: -1.5e+3
  encrypted: true
  region:
  fstype: ~
  kernel_args:
  - quiet
  - "a # b"
  steps:
    - name: one
      run:
      - x
      -   y: 1
          z:
    - [a, b]
    - {c: d}
---
- a
- b: 1
---
"""


def agrees(data: bytes) -> bool:
    """Whether `data` is read line by line. Then its documents are those of `compose`, without a problem."""
    composed = compose(data, "a.yaml")
    documents = Known().documents("a.yaml", data)
    if documents is None:
        return False
    assert composed.diagnostics == []
    assert repr(line_values(data)) == repr([document.value for document in composed.documents])
    assert repr([document.value for document in documents]) == repr(line_values(data))
    for found, whole in zip(documents, composed.documents, strict=True):
        shown = found.shown()
        assert dict(found.spans) == dict(whole.spans)
        assert dict(found.key_spans) == dict(whole.key_spans)
        assert dict(shown.spans) == dict(whole.shown().spans)
        assert len(found.spans) == len(whole.spans)
        assert found.private
        assert not shown.private
        assert whole.surprises == {}
        assert found.has_nulls or not whole.has_nulls
    return True


def test_what_is_usual_is_read_line_by_line() -> None:
    assert agrees(USUAL.encode())
    assert agrees(b"a: 1\n---\nb: [x, {c: null}]\n")
    assert agrees("é: 1\n# &x *y !z |\na: '&b'\nc: {d: \"e, f: g\", h: 1}  # !\n".encode())


@pytest.mark.parametrize("text", ["", "# a comment", "---\n", "---\n# one\n---\n\n---\n", " \n"])
def test_files_without_a_document_are_read(text: str) -> None:
    assert line_values(text.encode()) == []
    assert compose(text.encode(), "a.yaml").documents == []


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\n b: 2\n",
        " a: 1\n",
        "a:\n    b: 1\n  c: 2\n",
        "a: 1\n  - b\n",
        "a: 1\n- b\n",
        "- a\nb: 1\n",
        "- a\n  - b\n",
        "- - a\n",
        "-\n  a: 1\n",
        "a: |\n  b: 1\n",
        "a: >-  # c\n  b: 1\n",
        "- |\n  b: 1\n",
        "a: 'b\n  c: d'\n",
        'a: "b\\\n  c: d"\n',
        "a: [b,\n  c]\n",
        "a: b\n  c\n",
        "a:\n  b\n",
        "? a\n: 1\n",
        "a: 1\na: 2\n",
        "a: &x 1\n",
        "a: *x\n",
        "a: !!str 1\n",
        "<<: {a: 1}\n",
        "a: yes\n",
        "a: 017\n",
        "a: .nan\n",
        "a: “b”\n",
        "a: {yes: b}\n",
        "a: {b: no}\n",
        "a: {b: c, b: d}\n",
        "on: 1\n",
        "1: 1\n",
        '"a":\n  b: 1\n',
        "a: 1\rb: 2\n",
        "# a\rb: 2\n",
        "a:\t1\n",
        "--- a\n",
        "a: 1\n...\n",
        "%YAML 1.1\n---\na: 1\n",
        "{a: 1}\n",
        "a\n",
        "a: b: c\n",
        "a: \x07\n",
        "a: &x [1]\nb: *x\n",
        "~: 1\n",
        "? [a]\n: 1\n",
        "a: [\n",
        "%TAG ! x:\n---\na: 1\n",
        "--- ~\n",
        "x",
        "{a: [\n1, .inf]}",
        "a: " + "[" * 40 + "]" * 40 + "\n",
        "".join(f"{' ' * depth}a:\n" for depth in range(60)),
    ],
)
def test_what_is_not_certain_is_left_to_compose(text: str) -> None:
    assert line_values(text.encode()) is None
    assert Known().documents("a.yaml", text.encode()) is None


@times(4)
@given(st.lists(st.sampled_from(TOKENS), max_size=25).map("".join))
@example("a: 1e5\nb: 1.5\nc: -0.0\nd: 123456789012345678901234567890\ne: 6.02e+23\nf: null\n")
@example('{a: [1, {b: 2}], c: [\n3], "": "\\u00e9\\0"}\n--- \n--- ~\n...\n--- x\n')
def test_any_text_that_is_read_means_what_compose_says(text: str) -> None:
    agrees(text.encode())


@pytest.mark.parametrize("seed", range(60))
def test_mutated_manifests_mean_what_compose_says(seed: int) -> None:
    for data in make_files(Random(seed)).contents:
        agrees(data)


def test_broken_manifests_are_left_to_compose() -> None:
    for file in sorted((Path(__file__).parent / "broken").glob("*.yaml")):
        agrees(file.read_bytes())


_LINES = (
    *("a: 1", "b: x y", "c:", "d:", "- a", "- b:", "- c: 1", "-   d:", "e: [1, {f: 2}]", "- [x]", "- {a: b}"),
    *("'f': 'it''s'", 'g: "h: i"', "# j", "", "---", "k: l:m", "n: o #p", "q: ~", "null: r", "s: 1:30"),
    *("t: |", "- >", "u: 'v", "w", "- - x", "-", "? y", ": z", "a : 1", '"b":', "...", "--- a", "c: &d e"),
    *("a: {b: c, d: 'e, f: g'}", "a: {b: c ,d: 1 }  # e", "a: {b: c, b: d}", "a: {yes: b}", "a: {b: no}"),
    *('a: "b & c! *d"  # e', "a: 'b'c", "a: {b: c: d}", "a: {b: c#d}", "a: {b: c,}", "a: {b: -5}", "a: ''"),
    *("a: - b", "a: -5", "a:  # b", "{a: b}", "- 'a': b", "- a : b", "a: =", "a: ...", "a: %b", "a: b, c"),
)


@pytest.mark.parametrize("seed", range(20))
def test_any_lines_that_are_read_mean_what_compose_says(seed: int) -> None:
    rng = Random(seed)
    usual = 0
    for _ in range(200):
        among = rng.choice((5, 11, 21, len(_LINES)))
        chosen = (rng.choice(_LINES[:among]) for _ in range(rng.randrange(1, 7)))
        text = "".join(f"{rng.choice(('', '', '  ', '  ', '    ', ' '))}{line}\n" for line in chosen)
        usual += agrees(text.encode())
    assert usual


@pytest.mark.parametrize("limit", ["MOST_DOCUMENT_EVENTS", "MOST_DOCUMENTS", "MOST_FILE_EVENTS"])
def test_limits_are_those_of_compose(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"a: [b]\n---\na: [b]\n"
    assert line_values(data) is not None
    monkeypatch.setattr(lines, limit, 1)
    assert line_values(data) is None


@pytest.mark.parametrize(
    "text",
    [
        "a: [" + "b, " * 5_000 + "]\n",
        "a: [" + "b: c, " * 4_000 + "]\n",
        "a: {" + "".join(f"b{number}, " for number in range(7_000)) + "}\n",
        "".join(f"b{number}:\n- c: 1\n" for number in range(3_000)),
        "".join(f"a{number}: 1\n" for number in range(9_999)) + "b: 1\n",
        (volume("a") + "---\n") * 20_000,
        "a: 1\n---\n" * 19_999 + "a: 1\n",
    ],
    ids=["items", "pairs", "keys", "lists", "lines", "file", "documents"],
)
def test_what_is_too_much_for_compose_is_never_read(text: str) -> None:
    agrees(text.encode())
