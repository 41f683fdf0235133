"""Compares the plan of a file with the one that apply has made: the common part runs."""

import json
from collections.abc import Container, Iterator, Mapping
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace
from pydantic import BaseModel

from reconciler.core.advice import command
from reconciler.core.context import BASE
from reconciler.core.diagnostics import Diagnostic, Severity, error, warning
from reconciler.core.model import SENSITIVE, Action, Address, Lifecycle, Resource
from reconciler.core.steps import PLATFORM, Plan
from reconciler.kinds import find_kinds
from reconciler.planning.declared import ignored_fields
from reconciler.planning.digest import Content, contents, origin

PLAN_MOVED = "plan-moved"  # the code where a file's plan is not the one that apply makes
NOT_IN_PLAN = "not-in-plan"
_ANEW = command("plan", "--out", "FILE")


def moved(what: str, help: str = "") -> Diagnostic:
    """The error for a file whose plan is not the one that apply makes."""
    anew = f"make a new plan and review it: `{_ANEW}`"
    return error(PLAN_MOVED, what, help="; or ".join(filter(None, (help, anew))), advice=(_ANEW,))


def as_reviewed(
    reviewed: Plan, now: Plan, resources: Mapping[Address, Resource], recorded: Container[Address]
) -> Plan:
    """`now`, narrowed to what `reviewed` names; its diagnostics say how the two differ.

    An error for each address that `reviewed` names and whose content is another in `now`, and a warning for
    each that only `now` has. `resources`: what the manifests declare; `recorded`: what the state knows.
    """
    then, new = contents(reviewed), contents(now)
    named = {*then, *(change.address for change in reviewed.changes)}
    named |= {
        unread for unread in reviewed.unread if unread in new and _sets_a_value(then.get(unread), new[unread])
    }
    unnamed = new.keys() - named
    of_step = {step.id: step.address for step in now.steps}
    needs = {of_step[id]: step.address for step in now.steps if step.address in named for id in step.after}
    remarks = list(_compared(reviewed, now, then, new, resources, recorded))
    for address in (added for added in new if added in unnamed):
        if address in needs:
            remarks.append(moved(f"`{needs[address]}` needs `{address}`, which the file does not name"))
        else:
            remarks.append(_not_in_plan(address, _said(new[address])))
    remarks += (
        _not_in_plan(change.address, f"{change.action}: {change.reason}")
        for change in now.changes
        if change.action is Action.REFUSED and change.address not in named
    )
    kept = {*named, *needs, *(binding.address for binding in reviewed.bindings)} - unnamed
    there = {*unnamed, *(change.address for change in now.changes), *of_step.values()}
    there |= {binding.address for binding in now.bindings}
    plan = now.without(there - kept)
    return replace(
        plan,
        inputs=now.inputs,  # what others are made from is read, whatever becomes of it
        diagnostics=(*now.diagnostics, *remarks),
        outside=now.outside + len(now.changes) - len(plan.changes),
    )


def _compared(
    reviewed: Plan,
    now: Plan,
    then: Mapping[Address, Content],
    new: Mapping[Address, Content],
    resources: Mapping[Address, Resource],
    recorded: Container[Address],
) -> Iterator[Diagnostic]:
    """The remark or error for each address that `reviewed` names and that differs."""
    held: dict[Address, str] = {
        change.address: change.action
        for change in now.changes
        if change.action in (Action.RETAIN, Action.REFUSED)
    }
    held |= {
        address: "no such move"
        for move in reviewed.moves
        if move.source in resources or move.target not in resources
        for address in (move.source, move.target)
    }
    timely = _met_by_age(now, resources)
    before, after = contents(reviewed, timely), contents(now, timely)
    for address in dict.fromkeys([*then, *(change.address for change in reviewed.changes), *reviewed.unread]):
        was, is_now = then.get(address), new.get(address)
        if was == is_now or (is_now is None and address in now.unread):  # `secret-source` says why not
            continue
        if (
            is_now is None
            and was is not None
            and address not in held
            and _is_done(was, resources.get(address), is_recorded=address in recorded)
        ):
            yield _allowed(f"`{address}`: nothing is left to do, the file plans {_said(was)}")
        elif is_now is not None and address in reviewed.unread and _sets_a_value(was, is_now):
            yield _allowed(f"`{address}` is set: its source could not be read when the file was made")
        elif address in timely and before.get(address) == after.get(address):
            only = "only an age objective decides about this snapshot"
            yield _allowed(f"`{address}`: {only}: the file plans {_said(was)}, this run {_said(is_now)}")
        elif was is not None or address not in reviewed.unread:
            now_said = held.get(address) or _said(is_now)
            if now_said == _said(was):
                now_said = "that with a secret from another source"
            yield moved(f"`{address}`: the file plans {_said(was)}, but this run plans {now_said}")


def _is_done(planned: Content, resource: Resource | None, *, is_recorded: bool) -> bool:
    """Whether `planned` is what the manifests say, so that it was done where nothing is left to do."""
    if planned["calls"] and not planned["action"]:  # no plan is made so
        return False
    leaves = not {Action.DELETE, Action.FORGET}.isdisjoint(planned["action"])
    if resource is None or leaves:
        return resource is None and ((leaves and not is_recorded) or bool(planned["moved"]))
    if any(path in ignored_fields(resource) for path, _, _ in planned["fields"]):
        return False
    if any(resource.objectives.get(name) != after for name, (_, after) in planned["loosens"].items()):
        return False
    wanted = {path: after for path, _, after in planned["fields"]}
    said = {name: getattr(resource.spec, name) for name in wanted if hasattr(resource.spec, name)}
    # A range and the like hold several values: that nothing is left to do has to be enough.
    return all(value == wanted[name] for name, value in said.items() if not isinstance(value, BaseModel))


def _met_by_age(now: Plan, resources: Mapping[Address, Resource]) -> Mapping[Address, frozenset[Action]]:
    """The actions that meet an objective of age, by the resources that have one and are not deleted."""
    found, kinds = {}, find_kinds()
    for address, resource in resources.items():
        if resource.objectives:
            meeting = kinds[address.kind].objectives
            found[address] = frozenset(meeting[name] for name in resource.objectives if name in meeting)
    return found


def _sets_a_value(was: Content | None, now: Content) -> bool:
    """Whether `now` does no more than `was`, but that it sets a secret's value."""
    rest = {**now, "fields": [field for field in now["fields"] if field[0] != "value"]}
    if was is None:
        return now["action"] == [Action.SET] and len(now["fields"]) > len(rest["fields"]) == 0
    return rest == {**was, "fields": [field for field in was["fields"] if field[0] != "value"]}


def _not_in_plan(address: Address, planned: str) -> Diagnostic:
    """The warning for an address that only the new plan has."""
    problem = warning(
        NOT_IN_PLAN,
        f"`{address}` is not in the file and was left as it is: {planned}",
        help=f"make a plan of it and review it: `{_ANEW}`",
        advice=(_ANEW,),
    )
    return replace(problem, addresses=(str(address),))


def _allowed(what: str) -> Diagnostic:
    """The remark about a difference that does not matter."""
    return Diagnostic("allowed-difference", Severity.INFO, what)


_MOST = 500  # characters of one side


def _said(content: Content | None) -> str:
    """The content in one line, such as `extend vol_1, size_gb 10 -> 20, PUT /v1/apps/… {"size_gb": 20}`."""
    if content is None:
        return "nothing"
    impact = f"impact {content['impact']}" if "impact" in content else ""
    parts = [" ".join([*content["action"], content["id"] or ""]).strip(), impact, content["moved"]]
    loosened = [(name, *sides) for name, sides in content["loosens"].items()]
    parts += [f"{path} {_json(old)} -> {_json(new)}" for path, old, new in (*content["fields"], *loosened)]
    for service, method, path, body in content["calls"]:
        at = "" if service == PLATFORM else f" of {service}"
        parts.append(f"{method} {path}{at} {_json(body) if body is not None else ''}".rstrip())
    for keys in content["keys"]:
        parts.append(f"sets each key like {keys['only'] or keys['keys']}")
        parts += [f"passes over {keys['ignored']}"] if keys["ignored"] else []
    parts += [f"asks {service}" for service in content["asks"]]
    usual, lifecycle = to_builtins(Lifecycle(timeout_s=0)), content["lifecycle"]
    parts += [f"{name}: {_json(found)}" for name, found in lifecycle.items() if found != usual[name]]
    text = ", ".join(filter(None, parts))
    return text if len(text) <= _MOST else f"{text[:_MOST]}…"


def _json(value: Any) -> str:
    """`value` as JSON, without references to secrets."""
    return json.dumps(_hidden(value), ensure_ascii=False)


def _hidden(value: Any) -> Any:
    """`value` as a report may show it: what refers to a secret is not said."""
    if isinstance(value, dict):
        return SENSITIVE if "$secret" in value else {name: _hidden(item) for name, item in value.items()}
    return [_hidden(item) for item in value] if isinstance(value, list) else value


def made_elsewhere(reviewed: Plan, now: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """An error for each part of the origin of `reviewed` that is not as `now` (see `digest.origin`)."""
    for name, then in origin(reviewed.context, reviewed.manifests).items():
        if then != now[name]:
            said, here = (" ".join(side) if isinstance(side, list) else side for side in (then, now[name]))
            nothing, cure = _ORIGINS[name]
            yield moved(f"the file was made for the {name} {said or nothing}, not {here or nothing}", cure)


# What each part of an origin is called where it is empty, and what to check.
_ORIGINS = {
    "environment": (BASE, "pass the --env that it was made with"),
    "platform": ("none", "check RECONCILE_BASE_URL and `platform.base_url` in reconcile.yaml"),
    "state": ("that did not exist", "check --state and RECONCILE_STATE"),
    "paths": ("of the settings", "pass the PATHs that it was made with"),
    "revision": ("of the working tree", "pass the --ref that it was made with"),
}
