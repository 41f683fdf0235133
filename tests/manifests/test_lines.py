"""Values that are read line by line are those of `compose`, and what is not certain is left to others."""

from random import Random

import pytest

from reconciler.manifests.reading import lines
from reconciler.manifests.reading.compose import compose
from reconciler.manifests.reading.lines import line_values
from tests.manifests.conftest import volume

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
    """Whether `data` is read line by line; then `compose` reads the same, and has nothing to say."""
    values = line_values(data)
    if values is None:
        return False
    composed = compose(data, "a.yaml")
    assert composed.diagnostics == []
    assert repr(values) == repr([each.value for each in composed.documents])
    assert not any(each.surprises for each in composed.documents)
    return True


def test_what_is_usual_is_read_line_by_line() -> None:
    assert agrees(USUAL.encode())
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
        "a: " + "[" * 40 + "]" * 40 + "\n",
        "".join(f"{' ' * depth}a:\n" for depth in range(60)),
    ],
)
def test_what_is_not_certain_is_left_to_others(text: str) -> None:
    assert line_values(text.encode()) is None


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
