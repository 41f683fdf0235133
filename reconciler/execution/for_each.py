"""A step with one call for each key of an answer.

All keys and values are checked before the first call. If a key is not a valid name or belongs to another
address, or a value is not text, no call is sent.
"""

import dataclasses
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from reconciler.core.errors import ReconcilerError
from reconciler.core.model import Address, StateRecord
from reconciler.core.steps import (
    EACH_KEY,
    EACH_VALUE,
    ForEach,
    OutputRef,
    Result,
    Step,
    Template,
)
from reconciler.execution.outputs import Outputs
from reconciler.execution.run import Run
from reconciler.execution.send_gate import CallNotSent
from reconciler.execution.sending import mutate
from reconciler.kinds import find_kinds
from reconciler.kinds.base import segment
from reconciler.kinds.roles import SetsSecrets, secret_names
from reconciler.secrets.fingerprint import fingerprint
from reconciler.secrets.sensitive import Sensitive
from reconciler.services.outcome import cleaned

CLAIMED = "claimed"  # the record's field with the names that a step with `for_each` was about to set
KEYS_SHOWN = 60  # characters of an unfit key, which somebody else chose


async def send_for_each(run: Run, step: Step) -> Result:
    """Send the calls one after another until the first failure, every one with its own intent and outcome."""

    def print_of(key: str, value: Sensitive) -> str:
        # The fingerprint covers the key, so that it does not show that two keys have the same value.
        return fingerprint(run.fingerprint_key, step.address, Sensitive(f"{key}={value.reveal()}"))

    assert step.for_each is not None
    if run.stopping:
        raise CallNotSent("interrupted before it was sent")
    run.reporter.step_started(step)
    failed = await _ask_again(run, step)
    if failed is not None:
        return failed
    values = _values_of(step, run.outputs, run.recorder.records)
    await _claim(run, step, values or {})
    sent: list[str] = []
    for key, call in _calls_of(step, values or {}, print_of):
        record = run.recorder.records.get(step.address)
        if record is not None and call.effect.applied.items() <= record.applied.items():
            continue
        if run.stopping:
            return run.result(step, "pending", f"interrupted before `{key}` was sent; run again")
        try:
            # Stands only when the grace period after a signal cuts the call off.
            run.results[step.id] = run.result(step, "pending", f"interrupted at `{key}`; run again")
            result, _, _ = await mutate(run, call, within=True)
        except CallNotSent as not_sent:
            return run.result(step, "pending", f"`{key}`: {not_sent.message}; run again")
        if result.outcome != "done":
            return replace(result, step=step.id, error=f"`{key}`: {result.error}")
        sent.append(key)
    done = step.for_each.applied if values is not None else step.for_each.if_none
    await run.recorder.reached(step, done or {})
    return run.result(step, "done", note=f"set {', '.join(sent)}" if sent else "")


async def _ask_again(run: Run, step: Step) -> Result | None:
    """Repeat the call whose answer only an earlier run had. Returns the result if the call is not done."""
    assert step.for_each is not None
    over = step.for_each.over
    if not step.for_each.again or run.outputs.get(over) is not None:
        return None
    asked = next(other for other in run.plan.steps if other.id == over.source)
    result, reply, _ = await mutate(run, replace(asked, id=f"{asked.id}-again"), within=True)
    if result.outcome != "done":
        return replace(result, step=step.id)
    run.outputs.put(over.source, reply)
    return None


async def _claim(run: Run, step: Step, values: Mapping[str, Any]) -> None:
    """Record the names of the secrets before they are set, so that they are ours even if an answer is lost.

    Raises ReconcilerError if one of them already exists, and no record has set it.
    """
    assert step.for_each is not None
    record = run.recorder.records.get(step.address)
    applied = record.applied if record is not None else {}
    claimed = set(applied.get(CLAIMED, ()))
    new = [key for key in values if key not in claimed and step.for_each.keep + key not in applied]
    if not new:
        return
    strangers = await _set_by_strangers(run, step, new)
    if strangers:
        named = ", ".join(f"`{key}`" for key in sorted(strangers))
        raise ReconcilerError(
            f"app `{step.address.app}` already has {named}, which is in no record; no secret is set: to let "
            "it be replaced, name it in `config_keys`; otherwise remove it from the app"
        )
    await run.recorder.reached(step, {CLAIMED: sorted(claimed.union(new))})


async def _set_by_strangers(run: Run, step: Step, keys: Collection[str]) -> Collection[str]:
    """The `keys` that the app already has and the manifest does not name; empty if no list shows them."""
    sets = find_kinds()[step.address.kind].role(SetsSecrets)
    read = sets.app_secrets(step.address, run.capabilities) if sets is not None else None
    if sets is None or read is None:
        return ()
    there = {item.name for item in (await run.services.read(read)).objects}
    resource = run.resources.get(step.address)
    return [key for key in keys if key in there and not sets.may_replace(resource, key)]


def _values_of(
    step: Step, outputs: Outputs, records: Mapping[Address, StateRecord]
) -> Mapping[str, Any] | None:
    """The values by key, in order of key; None if the answer has no mapping and does not need one.

    Raises ReconcilerError when any of the calls must not be sent.
    """
    calls = step.for_each
    assert calls is not None
    values = outputs.get(calls.over)
    if values is None and calls.if_none is not None:
        return None
    if not isinstance(values, Mapping):
        raise ReconcilerError(f"the answer to {calls.over.source} has no `{calls.over.path}`")
    if calls.ignored:
        values = {key: value for key, value in values.items() if not re.fullmatch(calls.ignored, str(key))}
    _check(step, calls, values, records)
    return {key: values[key] for key in sorted(values)}


def _calls_of(
    step: Step, values: Mapping[str, Sensitive], print_of: Callable[[str, Sensitive], str]
) -> Iterable[tuple[str, Step]]:
    """One step for each key. Its body contains a `Sensitive`; the record keeps only its fingerprint."""
    calls = step.for_each
    assert calls is not None
    assert isinstance(step.call.path, Template)
    for key, value in values.items():
        body = {name: value if part == EACH_VALUE else part for name, part in (step.call.body or {}).items()}
        call = dataclasses.replace(step.call, path=_path(step.call.path.parts, key), body=body)
        applied = {calls.keep + key: print_of(key, value)}
        yield key, step.replaced(applied, id=f"{step.id}[{key}]", call=call, for_each=None)


def _path(parts: Iterable[str | OutputRef], key: str) -> str | Template:
    filled = tuple(segment(key) if part == EACH_KEY else part for part in parts)
    return "".join(map(str, filled)) if all(isinstance(part, str) for part in filled) else Template(filled)


def _check(
    step: Step, calls: ForEach, values: Mapping[str, Any], records: Mapping[Address, StateRecord]
) -> None:
    """Raises ReconcilerError unless every key may be set by this step, and every value is text."""
    others = {**_set_by_others(step.address, records), **calls.taken}
    for key in sorted(values, key=str):
        shown = cleaned(str(key))[:KEYS_SHOWN]
        if not re.fullmatch(calls.pattern, key):
            why = f"contains a key `{shown}`, which is not a valid name of a secret"
        elif calls.never and re.fullmatch(calls.never, key):
            why = f"contains `{shown}`, which changes how programs run and is never set"
        elif calls.allowed and not re.fullmatch(calls.allowed, key):
            why = f"contains a key `{shown}` that the manifest does not allow"
        elif not isinstance(values[key], Sensitive):
            why = f"contains a value of `{shown}` that is not text"
        elif key in others:
            why = f"to `{step.address}` contains `{shown}`, which belongs to `{others[key]}`"
        else:
            continue
        raise ReconcilerError(f"the answer {why}; no secret is set")


def _set_by_others(address: Address, records: Mapping[Address, StateRecord]) -> dict[str, str]:
    """The app's secrets in records of other addresses, with those addresses."""
    kinds = find_kinds()
    return {
        name: str(other)
        for other, record in records.items()
        if other.app == address.app and other != address and other.kind in kinds
        for name in secret_names(kinds[other.kind], None, record)
    }
