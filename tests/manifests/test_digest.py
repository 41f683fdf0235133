"""The digest of manifests: saved plans and runs hold it, so it stays what it always was."""

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.core.diagnostics import Span
from reconciler.core.model import Address, Deletion, Ignore, Lifecycle, Reference, Resource
from reconciler.kinds import find_kinds
from reconciler.manifests.meaning import digest_resources


def volume(name: str, **spec: Any) -> Resource:
    made = find_kinds()["Volume"].Spec.model_validate({"region": "ams", "size_gb": 10, **spec})
    file = "manifests/shop.yaml"
    return Resource(
        Address("Volume", name, "shop"), made, Lifecycle(), file, {("spec",): Span(file, 7, 1, 2)}
    )


PLAIN = volume("data")
RICH = replace(
    volume("dätä", size_gb={"min": 5, "max": 20}, snapshot_retention=None),
    lifecycle=Lifecycle(Deletion.DELETE, ("extend", "delete"), 60, "auto"),
    adopt_id="vol_1",
    references=(Reference(Address("Volume", "b"), ("spec",)), Reference(Address("Volume", "a"), ("spec",))),
    objectives={"snapshot_max_age_h": 24},
    ignores=(Ignore("size_gb", "grows", date(2027, 1, 31), ("lifecycle",)),),
)


def test_it_is_what_plans_and_runs_hold_already() -> None:
    assert (
        digest_resources([PLAIN, RICH]) == "cf74231bdcc136d55f4603fa584a7f1cb5e2e963f120d54390116e50e53a4850"
    )
    assert digest_resources([RICH, PLAIN]) == digest_resources([PLAIN, RICH])


@pytest.mark.parametrize(
    "other",
    [
        lambda each: replace(each, lifecycle=Lifecycle(timeout_s=7)),
        lambda each: replace(each, adopt_id="vol_2"),
        lambda each: replace(each, references=(Reference(Address("Volume", "c"), ("spec",)),)),
        lambda each: replace(each, objectives={"snapshot_max_age_h": 7}),
        lambda each: replace(each, ignores=(Ignore("name", "why", None, ()),)),
        lambda each: replace(each, file="manifests/other.yaml"),
        lambda each: replace(each, address=Address("Volume", "other", "shop")),
        lambda each: replace(each, spec=each.spec.model_copy(update={"size_gb": 11})),
    ],
)
@pytest.mark.parametrize("resource", [PLAIN, RICH])
def test_whatever_else_is_asked_for_makes_another(
    resource: Resource, other: Callable[[Resource], Resource]
) -> None:
    assert digest_resources([other(resource)]) != digest_resources([resource])


@pytest.mark.parametrize("resource", [PLAIN, RICH])
def test_positions_and_labels_make_no_other(resource: Resource) -> None:
    elsewhere = replace(resource, spans={("spec",): Span(resource.file, 9, 1, 2)}, labels={"team": "a"})
    assert digest_resources([elsewhere]) == digest_resources([resource])
