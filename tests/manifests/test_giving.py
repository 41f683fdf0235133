"""Which policies give values: looking them up finds what asking each of them would, in their order."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.model import Address, Lifecycle, Resource
from reconciler.policies import find_manifest_kinds
from reconciler.policies.giving import Giving
from reconciler.policies.retention import RetentionPolicySpec, Selector

_LABELS = st.dictionaries(st.sampled_from(["tier", "env", "app"]), st.sampled_from(["a", "b", "Volume"]))
_APPS = st.sampled_from([None, "a", "b"])
_SELECTORS = st.builds(lambda app, labels: Selector(app=app, labels=labels or None), _APPS, _LABELS)


def policy(number: int, selector: Selector) -> Resource:
    spec = RetentionPolicySpec(selector=selector, snapshot_retention=number + 1)
    return Resource(Address("RetentionPolicy", f"p{number}"), spec, Lifecycle(), "", {})


@given(
    st.lists(_SELECTORS, max_size=8),
    st.lists(st.tuples(st.sampled_from(["Volume", "Secret"]), st.sampled_from(["a", "b"]), _LABELS)),
)
def test_looking_policies_up_finds_what_asking_each_of_them_would(
    selectors: list[Selector], wanted: list[tuple[str, str, dict[str, str]]]
) -> None:
    giving = Giving([policy(*each) for each in enumerate(selectors)], find_manifest_kinds())
    for kind, app, labels in wanted:
        selected = [
            (number, {"snapshot_retention": number + 1})
            for number, selector in enumerate(selectors)
            if kind == "Volume"
            and selector.app in (None, app)
            and (selector.labels or {}).items() <= labels.items()
        ]
        given = giving.given(Resource(Address(kind, "x", app), None, Lifecycle(), "", {}, labels))
        assert list(given) == selected


def test_only_policies_that_give_values_are_asked() -> None:
    provider = Resource(Address("ExtensionProvider", "db"), None, Lifecycle(), "", {})
    giving = Giving([provider, policy(0, Selector())], find_manifest_kinds())
    (given,) = giving.given(Resource(Address("Volume", "x", "a"), None, Lifecycle(), "", {}))
    assert given == (1, {"snapshot_retention": 1})
