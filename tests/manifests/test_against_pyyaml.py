"""Whatever is accepted means what PyYAML says, and nothing at all makes the composer raise."""

from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from reconciler.manifests.reading import compose as composer
from reconciler.manifests.reading.compose import compose
from tests.examples import times


class TextDates(yaml.CSafeLoader):
    """PyYAML's loader, except that dates stay text."""


TextDates.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(("timestamp", "value"))]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}

TextDates.add_constructor("tag:yaml.org,2002:merge", lambda _loader, node: node.value)  # a value `<<`

TOKENS = (
    *(
        "a",
        "b",
        "yes",
        "1",
        "017",
        "1:30",
        "~",
        "2026-01-01",
        '"q"',
        "'s'",
        "é🎉",
        "!!str ",
        "&x ",
        "*x",
        "<<",
    ),
    *(": ", ":", "- ", "? ", "[", "]", "{", "}", ", ", "|", ">", "#", "\t", " ", "  ", "\n", "\n  ", "\r\n"),
    *("\n---\n", "\n...\n", "%TAG", "\\", "@", "\x00", "\ufeff", "\u2028"),
)


def pyyaml(text: str) -> list[Any]:
    return [value for value in yaml.load_all(text, TextDates) if value is not None]


@times(3)
@given(st.lists(st.sampled_from(TOKENS), max_size=25).map("".join))
def test_accepted_text_means_what_pyyaml_says(text: str) -> None:
    composed = compose(text.encode(), "a.yaml")
    assume(text.count("&x") < 2)  # an anchor may be set again; PyYAML alone refuses that
    if not composed.diagnostics:
        assert [document.value for document in composed.documents] == pyyaml(text)


@times(2)
@given(st.binary(max_size=60))
def test_no_bytes_make_it_raise(data: bytes) -> None:
    for problem in compose(data, "a.yaml").diagnostics:
        assert problem.span is not None
        assert problem.span.line >= 1
        assert problem.span.column >= 1


@pytest.mark.parametrize("text", ["a: [1, {b: x}]\nc:\n- |\n  d\n", "[" * 1_000, "a: [\n", "a:\n\tb: 1\n"])
def test_without_libyaml_the_result_is_the_same(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = compose(text.encode(), "a.yaml")
    monkeypatch.setattr(composer, "_LOADER", yaml.SafeLoader)
    slow = compose(text.encode(), "a.yaml")
    assert [document.value for document in slow.documents] == [document.value for document in fast.documents]
    assert [dict(document.spans) for document in slow.documents] == [
        dict(document.spans) for document in fast.documents
    ]
    assert [problem.code for problem in slow.diagnostics] == [problem.code for problem in fast.diagnostics]
