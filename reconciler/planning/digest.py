"""The content of a plan as JSON values, and the digest of that.

The content is what two plans must have in common to do the same. Approvals sign the digest, and `apply
--plan` compares the content with that of its own plan. Not in it are texts, times, ids of plans and steps,
and the commit (a squash merge makes another one of the same manifests). Secrets stand in the JSON as
references to their sources only.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from operator import is_
from types import MappingProxyType
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace
from pydantic import TypeAdapter

from reconciler.core.context import Context
from reconciler.core.diagnostics import NOT_RECOVERABLE, addresses_of
from reconciler.core.model import Action, Address, Impact
from reconciler.core.steps import PLATFORM, ManifestSet, OutputRef, Plan, SecretRef, Step, Template

Content = dict[str, Any]
LeftOut = Mapping[Address, frozenset[Action]]


def plan_digest(plan: Plan) -> str:
    """SHA-256 as 64 hexadecimal digits."""
    return hashlib.sha256(plan_text(plan).encode()).hexdigest()


def plan_text(plan: Plan) -> str:
    """The content as JSON: the digest is of this text."""
    whole = {
        **origin(plan.context, plan.manifests),
        "targets": sorted(plan.manifests.targets),
        "changes": {str(address): content for address, content in contents(plan).items()},
        "unread": sorted(map(str, plan.unread)),
    }
    if told := addresses_of(NOT_RECOVERABLE, plan.diagnostics):
        whole["not recoverable"] = sorted(told)
    return json.dumps(whole, sort_keys=True, separators=(",", ":"))


def origin(context: Context, manifests: ManifestSet) -> Mapping[str, Any]:
    """The environment, platform and state that a plan is made for, and the manifests that it is made from."""
    return {
        "environment": context.environment,
        "platform": context.platform,
        "state": context.lineage or "",
        "paths": list(manifests.paths),
        "revision": manifests.ref,
    }


def contents(plan: Plan, without: LeftOut = MappingProxyType({})) -> dict[Address, Content]:
    """The content of `plan` by address, as JSON. Addresses about which nothing is done are left out.

    `without`: the actions of an address that are left out, with the step that each is named for.
    """
    document = plan_json(plan)
    found: dict[Address, Content] = {}

    def of(address: Address) -> Content:
        """The content of `address`, made where there is none yet."""
        nothing: Content = {"action": [], "id": None, "moved": "", "loosens": {}, "lifecycle": {}}
        return found.setdefault(address, nothing | {"fields": [], "calls": [], "keys": [], "asks": []})

    for change, written in zip(plan.changes, document["changes"], strict=True):
        actions = [action for action in change.actions if action not in without.get(change.address, ())]
        if any(action.changes_something for action in actions):
            fields = [[field[name] for name in ("path", "before", "after")] for field in written["fields"]]
            of(change.address).update(action=actions, id=change.id, fields=fields)
            if change.impact is not Impact.ONLINE:
                of(change.address)["impact"] = change.impact.value
    for move in plan.moves:
        of(move.source)["moved"] = f"{move.id} becomes {move.target}"
        of(move.target)["moved"] = f"{move.id} was {move.source}"
    for weakened in plan.loosened:
        of(weakened.address)["loosens"][weakened.objective] = [weakened.before, weakened.after]
    for step, written in zip(plan.steps, document["steps"], strict=True):
        if step.mutates and not _is_left_out(step, without):
            call = step.call
            service = plan.providers.get(call.service, call.service)
            sent = [service, call.method, str(call.path), written["call"]["body"]]
            of(step.address)["calls"].append(sent)
            if (keys := step.for_each) is not None:
                patterns = {"keys": keys.pattern, "only": keys.allowed, "never": keys.never}
                of(step.address)["keys"].append(patterns | {"ignored": keys.ignored})
    for binding in plan.bindings:
        about = found.get(binding.address)
        # Where nothing is done, a record that merely learns a field has a binding, and others have none.
        if about is not None and (about["action"] or about["calls"]):
            about["lifecycle"] = to_builtins(replace(binding.lifecycle, timeout_s=0))
    for address, service in sorted({*_asked(plan, document)}, key=str):
        if address in found and service != PLATFORM:
            found[address]["asks"].append(plan.providers.get(service, service))
    return found


def _asked(plan: Plan, document: Mapping[str, Any]) -> Iterator[tuple[Address, str]]:
    """The services whose answers decide what is sent for an address, or whether it is done."""
    yield from (
        (expectation.address, expectation.read.service)
        for expectation in plan.expectations
        if expectation.read is not None
    )
    yield from ((step.address, step.wait.read.service) for step in plan.steps if step.wait is not None)
    for source, read in plan.inputs:
        if read.service != PLATFORM:
            steps = zip(plan.steps, document["steps"], strict=True)
            uses = (step for step, written in steps if f'"{source}"' in json.dumps(written["call"]))
            yield from ((step.address, read.service) for step in uses)


def _is_left_out(step: Step, without: LeftOut) -> bool:
    """Whether `step` is one of an action that is left out."""
    return any(step.id == f"{step.address}#{action}" for action in without.get(step.address, ()))


_TAGS: dict[str, type[Any]] = {"$output": OutputRef, "$secret": SecretRef, "$template": Template}


def plan_json(plan: Plan) -> dict[str, Any]:
    """The whole plan as JSON values."""
    tagged = replace(plan, steps=tuple(_map_values(step, _tag) for step in plan.steps))
    found: dict[str, Any] = _adapter().dump_python(tagged, mode="json")
    return found


def parse_plan(document: Any) -> Plan:
    """Raises pydantic's ValidationError for what `plan_json` never writes."""
    plan = _adapter().validate_python(document)
    return replace(plan, steps=tuple(_map_values(step, _untag) for step in plan.steps))


@cache
def _adapter() -> TypeAdapter[Plan]:
    """The validator of plans, made when it is first used: that takes a while."""
    return TypeAdapter(Plan)


def _map_values(step: Step, convert: Callable[[Any], Any]) -> Step:
    """`step` with all values of its body and its effect converted."""
    body, applied = convert(step.call.body), convert(step.effect.applied)
    if body is step.call.body and applied is step.effect.applied:
        return step  # as most are
    return step.replaced(applied, call=dataclasses.replace(step.call, body=body))


def _tag(value: Any) -> Any:
    """`value` itself where it holds nothing to tag: what JSON has a form of stays as it is."""
    if isinstance(value, OutputRef):
        return {"$output": [value.source, value.path, value.or_kept]}
    if isinstance(value, SecretRef):
        parts = [_tag(part) for part in value.parts]
        return {"$secret": [value.source, value.name, parts, value.timeout_s]}
    if isinstance(value, Template):
        return {"$template": [[_tag(part) for part in value.parts]]}
    if isinstance(value, Mapping):
        tagged = {name: _tag(item) for name, item in value.items()}
        same = type(value) is dict and all(tagged[name] is item for name, item in value.items())
        return value if same else tagged
    if isinstance(value, list | tuple):
        items = [_tag(item) for item in value]
        same = type(value) is list and all(map(is_, items, value))
        return value if same else items
    return value


def _untag(value: Any) -> Any:
    """The value that `_tag` made `value` of."""
    if isinstance(value, Mapping):
        (tag, arguments) = next(iter(value.items())) if len(value) == 1 else ("", None)
        if tag in _TAGS and isinstance(arguments, list | tuple):
            return _TAGS[tag](*(_frozen(_untag(item)) for item in arguments))
        return {name: _untag(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_untag(item) for item in value]
    return value


def _frozen(value: Any) -> Any:
    """`value`, with a list as a tuple."""
    return tuple(value) if isinstance(value, list) else value
