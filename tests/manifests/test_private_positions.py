"""Every position is private until the document's kind is known to hold no secrets: nobody has to hide it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.core.diagnostics import Span, error
from reconciler.core.model import Resource
from reconciler.kinds.roles import holds_secrets
from reconciler.manifests.load import Loaded, load
from reconciler.manifests.reading.compose import compose
from reconciler.policies import find_manifest_kinds

EXAMPLES = Path(__file__).parents[2] / "manifests" / "examples"
SHOP = """\
apiVersion: reconciler/v1
kind: Volume
metadata: {name: data, app: shop}
spec: {region: ams, size_gb: 10}
---
apiVersion: reconciler/v1
kind: Secret
metadata:
  name: TOKEN
  app: shop
spec: {value_from: {env: TOKEN}}
"""
OVERLAY = """\
Secret/shop/TOKEN:
  metadata: {app: shop-2}
Volume/shop/data:
  metadata: {app: shop-2}
"""


def loaded(root: Path, overlay: str = "") -> Loaded:
    (root / "shop.yaml").write_text(SHOP)
    if overlay:
        (root / "overlays" / "prod").mkdir(parents=True)
        (root / "overlays" / "prod" / "patch.yaml").write_text(overlay)
    found = load([str(root)], root=root, overlay=str(root / "overlays" / "prod") if overlay else None)
    assert not found.diagnostics
    return found


def spans_of(resource: Resource) -> Iterator[Span]:
    for path in (*resource.spans, *resource.inherited):
        span = resource.span(*path)
        assert span is not None
        yield span


def test_positions_are_private_before_anybody_knows_the_kind() -> None:
    (volume, secret) = compose(SHOP.encode(), "shop.yaml").documents
    for document in (volume, secret):
        positions = (*document.spans.values(), *document.key_spans.values())
        assert all(span.private for span in positions)
    assert volume.private
    assert not volume.shown().private
    assert volume.private, "the document itself is not altered"
    shown = volume.shown()
    assert not any(span.private for span in shown.key_spans.values())


@pytest.mark.parametrize("text", ["a: [", "a: !tag x", "a: 1\na: 2", "\tx: 1", "a: \x01", "a: *b"], ids=repr)
def test_problems_of_what_cannot_be_read_are_private(text: str) -> None:
    composed = compose(text.encode(), "a.yaml")
    assert composed.diagnostics
    assert all(problem.hidden for problem in composed.diagnostics)
    assert not any(problem.hidden for problem in composed.shown())


@pytest.mark.parametrize("overlay", ["", OVERLAY], ids=["alone", "patched"])
def test_a_resource_shows_its_lines_only_if_its_kind_holds_no_secrets(tmp_path: Path, overlay: str) -> None:
    kinds = find_manifest_kinds()
    resources = loaded(tmp_path, overlay).resources
    assert {resource.address.kind for resource in resources} == {"Volume", "Secret"}
    for resource in resources:
        private = holds_secrets(kinds[resource.address.kind])
        assert {span.private for span in spans_of(resource)} == {private}


def test_every_example_of_a_kind_that_holds_secrets_is_private() -> None:
    kinds = find_manifest_kinds()
    found = load([str(EXAMPLES)], root=EXAMPLES)
    every = [*found.resources, *found.policies]
    assert any(holds_secrets(kinds[resource.address.kind]) for resource in every)
    for resource in every:
        private = holds_secrets(kinds[resource.address.kind])
        assert all(span.private is private for span in spans_of(resource)), resource.address


def test_a_problem_at_a_private_position_is_hidden_whoever_finds_it(tmp_path: Path) -> None:
    secret = next(each for each in loaded(tmp_path).resources if each.address.kind == "Secret")
    assert error("any-code", "anything", secret.span("metadata", "name")).hidden
    assert error("any-code", "anything", secret.span("nowhere", "at", "all")).hidden
