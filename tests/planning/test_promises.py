"""What every plan promises, in whatever state manifests, records and platform are."""

from collections import Counter
from collections.abc import Callable, Iterable

from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.diagnostics import has_errors
from reconciler.core.model import Action, Address, Deletion
from reconciler.core.steps import Plan
from tests.examples import times
from tests.planning.worlds import VOLUMES, World, converged, record, request, worlds

Promise = Callable[[World, Plan], Iterable[object]]  # what breaks it


def nothing_is_sent_for_what_is_refused(world: World, plan: Plan) -> Iterable[object]:
    refused = {change.address for change in plan.changes if change.action is Action.REFUSED}
    yield from (each for each in plan.steps if each.address in refused)
    yield from (each for each in plan.bindings if each.address in refused)
    yield from (each for each in plan.expectations if each.address in refused)


def a_recorded_object_that_is_missing_is_not_made_again(world: World, plan: Plan) -> Iterable[object]:
    """A Secret is: it is set again, and holds nothing that could be lost."""
    makes = [change.address for change in plan.changes if change.action in (Action.CREATE, Action.RESTORE)]
    makes += [step.address for step in plan.steps if str(step.call.path).endswith(("/volumes", "/postgres"))]
    return [each for each in makes if each in world.request.records and each.kind != "Secret"]


def only_the_recorded_object_of_what_left_is_deleted(world: World, plan: Plan) -> Iterable[object]:
    request = world.request
    kept = {each.address for each in request.resources} | request.elsewhere.not_given
    for step in plan.steps:
        if step.call.method == "DELETE" or step.effect.removes:
            record = request.records.get(step.address)
            if (
                record is None
                or step.address in kept
                or str(step.call.path).split("/")[-1] != record.id
                or record.lifecycle.deletion is not Deletion.DELETE
                or record.inferred
            ):
                yield step


def nothing_is_sent_about_what_could_not_be_read(world: World, plan: Plan) -> Iterable[object]:
    apps = {app for app in world.volumes if f"/v1/apps/{app}/volumes" in world.unreadable}
    return [step for step in plan.steps if step.address.kind == "Volume" and step.address.app in apps]


def no_object_gets_two_owners(world: World, plan: Plan) -> Iterable[object]:
    owners: dict[str, set[Address]] = {}
    for address, each in world.request.records.items():
        owners.setdefault(each.id, set()).add(address)
    bound = [each for each in plan.bindings if each.id and each.address.kind == "Volume"]
    times = Counter(each.id for each in bound)
    return [
        each
        for each in bound
        if each.address not in owners.get(str(each.id), {each.address})
        or (times[each.id] > 1 and not has_errors(plan.diagnostics))
    ]


def one_id_of_two_records_is_an_error(world: World, plan: Plan) -> Iterable[object]:
    """Where the plan is about one of the two."""
    focus, records = world.request.focus, world.request.records
    recorded = Counter((each.address.kind, each.id) for each in records.values())
    asked = [each for each in records.values() if focus is None or each.address in focus]
    if any(recorded[each.address.kind, each.id] > 1 for each in asked) and not has_errors(plan.diagnostics):
        yield "a plan without errors"


def what_two_manifests_name_has_one_owner(world: World, plan: Plan) -> Iterable[object]:
    """In a plan that may run, at most one of them binds the object, or has a call for it."""
    if has_errors(plan.diagnostics):
        return
    named = Counter(each.adopt_id for each in world.request.resources if each.adopt_id)
    for id in [id for id, count in named.items() if count > 1]:
        addresses = {step.address for step in plan.steps if f"/{id}" in str(step.call.path)}
        addresses |= {each.address for each in plan.bindings if each.id == id}
        if len(addresses) > 1:
            yield id, addresses


def only_what_is_in_focus_changes(world: World, plan: Plan) -> Iterable[object]:
    focus = world.request.focus
    if focus is not None:
        told = [each for each in plan.changes if each.action is not Action.REFUSED]  # of a rename, both names
        yield from (each for each in told if each.address not in focus)
        yield from (each for each in plan.steps if each.address not in focus)


def an_open_question_stops_its_resource_and_the_plan(world: World, plan: Plan) -> Iterable[object]:
    focus, wanted = world.request.focus, {each.address for each in world.request.resources}
    asked = {each for each in world.request.undecided if focus is None or each in focus}
    if asked and not has_errors(plan.diagnostics):
        yield "a plan without errors"
    refused = {change.address for change in plan.changes if change.action is Action.REFUSED}
    yield from (asked & wanted) - refused


PROMISES: tuple[Promise, ...] = (
    nothing_is_sent_for_what_is_refused,
    a_recorded_object_that_is_missing_is_not_made_again,
    only_the_recorded_object_of_what_left_is_deleted,
    nothing_is_sent_about_what_could_not_be_read,
    no_object_gets_two_owners,
    one_id_of_two_records_is_an_error,
    what_two_manifests_name_has_one_owner,
    only_what_is_in_focus_changes,
    an_open_question_stops_its_resource_and_the_plan,
)


@times(3)
@given(worlds(), st.integers(0, 99))
def test_what_every_plan_promises(world: World, order: int) -> None:
    plan = world.plan()
    broken = {promise.__name__: list(promise(world, plan)) for promise in PROMISES}
    assert not {name: found for name, found in broken.items() if found}
    assert world.plan(order) == plan, "the order of answers changes the plan"


@given(converged())
def test_where_all_is_as_declared_nothing_is_to_do(world: World) -> None:
    plan = world.plan()
    assert (plan.changes, plan.steps, plan.bindings, plan.diagnostics) == ((), (), (), ())
    assert plan.unchanged == len(world.request.resources)


def test_an_object_with_two_records_is_an_error_of_the_plan() -> None:
    records = [record(address, "vol_1", {"name": address.name}) for address in VOLUMES[:2]]
    plan = World(request([], records)).plan()
    assert "recorded-twice" in {item.code for item in plan.diagnostics}
