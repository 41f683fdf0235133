"""The steps that kinds plan, one constructor for each way that a call can go."""

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

from reconciler.core.steps import (
    Call,
    Condition,
    ForEach,
    Guard,
    OutputRef,
    Owes,
    Read,
    Recovery,
    Repeat,
    Step,
    StepEffect,
    Template,
    Wait,
)
from reconciler.kinds.base import Subject

# For a moment after a delete, reads still show the object, and a list may still offer it for adoption.
# Source: platform notes, "Volumes".
DELETE_LAG_S = 60


class StepOptions(TypedDict, total=False):
    """What else a step says and waits for; see `Step`."""

    after: tuple[str, ...]
    lane: str
    note: str
    if_refused: str


class CallOptions(TypedDict, total=False):
    """Whose call it is; see `Call`."""

    service: str
    sensitive: bool


class _StepFields(StepOptions, total=False):
    effect: StepEffect
    guard: Guard | None
    recovery: Recovery
    wait: Wait | None
    for_each: ForEach


def create(
    subject: Subject,
    call: Call,
    *,
    id_path: str | None,
    object_path: str | None,
    applied: Mapping[str, Any],
    recovery: Recovery,
    wait: Wait | None = None,
    name: str = "create",
    accepts: tuple[str, ...] = (),
    **options: Unpack[StepOptions],
) -> Step:
    """A call that makes something, which the reply names at `id_path`: made twice, there would be two.

    `id_path` is None where it is not the object of the record.
    """
    effect = StepEffect(applied, id_path, object_path=object_path, accepts=accepts)
    return _step(subject, name, call, effect=effect, recovery=recovery, wait=wait, **options)


def absolute(
    subject: Subject,
    name: str,
    call: Call,
    *,
    applied: Mapping[str, Any] | None = None,
    known_id: str = "",
    object_path: str | None = None,
    owes: Owes | None = None,
    guard: Guard | None = None,
    wait: Wait | None = None,
    **options: Unpack[StepOptions],
) -> Step:
    """A PUT, or another call that may be sent again."""
    effect = StepEffect(applied or {}, known_id=known_id, object_path=object_path, owes=owes)
    return _step(subject, name, call, effect=effect, guard=guard, recovery=Repeat(), wait=wait, **options)


def delete(
    subject: Subject,
    path: str | Template,
    read: Read | None = None,
    *,
    item: str | None = None,
    every_s: float = 0.0,
    **options: Unpack[CallOptions],
) -> Step:
    """The object and its record go; one that is not there any more is gone.

    `read`: shows the object, or `item` of its list. Where nothing does, the answer alone has to do.
    """
    effect = StepEffect(accepts=("not_found", "gone"), removes=True)
    call = Call("DELETE", path, **options)
    gone = None
    if read is not None:
        there = Condition("present", any_of=(False,))
        gone = Wait(read, there, DELETE_LAG_S, item, or_gone=True, every_s=every_s)
    return _step(subject, "delete", call, effect=effect, recovery=Repeat(), wait=gone)


def set_each(
    subject: Subject, name: str, call: Call, for_each: ForEach, **options: Unpack[StepOptions]
) -> Step:
    """One absolute call for each key of an answer."""
    return _step(subject, name, call, for_each=for_each, recovery=Repeat(), **options)


def wait_only(subject: Subject, wait: Wait, name: str = "wait") -> Step:
    """No call: what was begun earlier is waited for."""
    return _step(subject, name, Call("GET", wait.read.path, service=wait.read.service), wait=wait)


def answer_of(subject: Subject, name: str, path: str, *, or_kept: bool = False) -> OutputRef:
    """What the reply to the subject's step `name` holds at the dotted `path`."""
    return OutputRef(f"{subject.address}#{name}", path, or_kept)


def _step(subject: Subject, name: str, call: Call, **parts: Unpack[_StepFields]) -> Step:
    return Step(f"{subject.address}#{name}", subject.address, call, **parts)
