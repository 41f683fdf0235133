"""Values that are known without positions are those of `compose`, and positions come when somebody asks."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.manifests.known import Known
from reconciler.manifests.reading.compose import compose
from reconciler.manifests.reading.spans import SpanTable
from tests.examples import times
from tests.manifests.test_against_pyyaml import TOKENS
from tests.reliability.fuzz.mutation import make_files

BROKEN = Path(__file__).parent / "broken"


def agrees(data: bytes) -> bool:
    """Whether the values of `data` are known; then nothing tells its documents from those of `compose`."""
    composed = compose(data, "a.yaml")
    documents = Known().documents("a.yaml", data, SpanTable())
    if documents is None:
        return False
    assert composed.diagnostics == []
    assert repr([each.value for each in documents]) == repr([each.value for each in composed.documents])
    for found, whole in zip(documents, composed.documents, strict=True):
        assert dict(found.spans) == dict(whole.spans)
        assert dict(found.key_spans) == dict(whole.key_spans)
        assert dict(found.shown().spans) == dict(whole.shown().spans)
        assert len(found.spans) == len(whole.spans)
        assert found.private
        assert not found.shown().private
        assert whole.surprises == {}
        assert found.has_nulls or not whole.has_nulls
    return True


@times(4)
@given(st.lists(st.sampled_from(TOKENS), max_size=25).map("".join))
@example("a: 1e5\nb: 1.5\nc: -0.0\nd: 123456789012345678901234567890\ne: 6.02e+23\nf: null\n")
@example('{a: [1, {b: 2}], c: [\n3], "": "\\u00e9\\0"}\n--- \n--- ~\n...\n--- x\n')
def test_what_is_known_is_as_compose_reads_it(text: str) -> None:
    agrees(text.encode())


@pytest.mark.parametrize("seed", range(60))
def test_what_is_known_of_mutated_manifests_is_as_compose_reads_it(seed: int) -> None:
    for data in make_files(Random(seed)).contents:
        agrees(data)


def test_what_is_broken_is_left_to_compose() -> None:
    for file in sorted(BROKEN.glob("*.yaml")):
        agrees(file.read_bytes())


@pytest.mark.parametrize(
    "text",
    [
        "a: &x 1\n",
        "a: &x [1]\nb: *x\n",
        "a: *x\n",
        "a: !!str 1\n",
        "a: yes\n",
        "a: 017\n",
        "a: 1\na: 2\n",
        "1: 1\n",
        "~: 1\n",
        "? [a]\n: 1\n",
        "a: [\n",
        "[" * 65 + "]" * 65,
        "%TAG ! x:\n---\na: 1\n",
        "--- ~\n",
        "x",
        "{a: [\n1, .inf]}",
    ],
)
def test_what_is_unusual_is_left_to_compose(text: str) -> None:
    assert Known().documents("a.yaml", text.encode(), SpanTable()) is None


@pytest.mark.parametrize("text", ["a: 1\n---\nb: [x, {c: null}]\n", "", "# only a comment\n"])
def test_what_is_usual_is_known(text: str) -> None:
    assert agrees(text.encode())
