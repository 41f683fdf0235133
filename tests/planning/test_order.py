"""The order of steps: complete, without cycles, and as narrow as the references ask."""

from graphlib import TopologicalSorter

from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.model import Address, Lifecycle, Reference, Resource
from reconciler.core.steps import Call, Find, Read, Step
from reconciler.core.wire import many
from reconciler.planning.order import order_steps, referenced_first
from reconciler.services.machines.wire.volume import Volume

Groups = list[list[Step]]
References = dict[Address, list[Address]]


def address(number: int) -> Address:
    return Address("Volume", f"v{number}", "shop")


@st.composite
def plans(draw: st.DrawFn) -> tuple[Groups, References]:
    """Steps of some resources in any order, whose references point to lower numbers: no cycles."""
    count = draw(st.integers(0, 8))
    groups: Groups = []
    references: References = {}
    for number in range(count):
        lower = st.sampled_from(range(number)) if number else st.nothing()
        references[address(number)] = [address(to) for to in draw(st.lists(lower, unique=True))]
        kinds = draw(st.lists(st.sampled_from(["snapshot", "update", "extend"]), unique=True))
        groups.append(
            [Step(f"{address(number)}#{kind}", address(number), Call("PUT", "/v1")) for kind in kinds]
        )
    return draw(st.permutations(groups)), references


@given(plans())
def test_every_step_comes_back_once(plan: tuple[Groups, References]) -> None:
    groups, references = plan
    ordered = order_steps(groups, references)
    assert [step.id for step in ordered] == [step.id for group in groups for step in group]


@given(plans())
def test_a_step_never_waits_for_itself(plan: tuple[Groups, References]) -> None:
    ordered = order_steps(*plan)
    graph = {step.id: step.after for step in ordered}
    assert set(TopologicalSorter(graph).static_order()) == set(graph)


@given(plans())
def test_a_resource_follows_all_steps_of_what_it_refers_to(plan: tuple[Groups, References]) -> None:
    groups, references = plan
    ordered = order_steps(groups, references)
    graph = {step.id: step.after for step in ordered}
    rank = {id: rank for rank, id in enumerate(TopologicalSorter(graph).static_order())}
    by_address = {group[0].address: [step.id for step in group] for group in groups if group}
    for source, ids in by_address.items():
        assert ids == sorted(ids, key=rank.__getitem__)
        for to in references[source]:
            assert all(rank[before] < rank[ids[0]] for before in by_address.get(to, []))


def create(number: int, name: str) -> list[Step]:
    find = Find(Read("/v1/apps/shop/volumes", many(Volume)), {"name": name})
    return [
        Step(
            f"{address(number)}#create", address(number), Call("POST", "/v1/apps/shop/volumes"), recovery=find
        )
    ]


def test_creates_that_a_list_cannot_tell_apart_run_one_after_another() -> None:
    ordered = order_steps([create(1, "data"), create(2, "logs"), create(3, "data")], {})
    assert [step.after for step in ordered] == [(), (), ("Volume/shop/v1#create",)]


def test_independent_resources_do_not_wait_for_each_other() -> None:
    steps = [[Step(f"{number}", address(number), Call("PUT", "/v1"))] for number in range(3)]
    assert all(step.after == () for step in order_steps(steps, {}))


@given(plans())
def test_what_is_referred_to_comes_first(plan: tuple[Groups, References]) -> None:
    _, references = plan
    resources = [
        Resource(
            source,
            None,
            Lifecycle(),
            "a.yaml",
            {},
            references=tuple(Reference(to, ("spec",)) for to in wanted),
        )
        for source, wanted in reversed(references.items())
    ]
    ordered = [resource.address for resource in referenced_first(resources)]
    assert sorted(ordered) == sorted(references)
    assert all(
        ordered.index(to) < ordered.index(source) for source, wanted in references.items() for to in wanted
    )
