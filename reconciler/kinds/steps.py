"""The steps that kinds plan: one constructor for every way in which a call can be made safe to send.

`create` makes a second object if it is sent twice, so its recovery finds the first; `absolute` and `delete`
may be sent again; `wait_only` sends nothing.
"""

from collections.abc import Collection, Mapping
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
from reconciler.core.uses import SIZES, Uses, largest
from reconciler.kinds.base import Subject

# For a moment after a delete, reads still show the object, and a list may still offer it for adoption.
# Source: platform notes, "Volumes".
DELETE_LAG_S = 60


class StepOptions(TypedDict, total=False):
    """Further fields of a `Step`: its order, texts for people, and what it uses of budgets."""

    after: tuple[str, ...]
    lane: str
    note: str
    if_refused: str
    uses: Uses


class CallOptions(TypedDict, total=False):
    """Further fields of a `Call`."""

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
    size_gb: int | None = 0,
    **options: Unpack[StepOptions],
) -> Step:
    """Return a call that creates an object: sent twice, there would be two.

    `id_path`: the dotted path of the id in the reply, such as "id"; None if the new object is not the
    record's own. `object_path`: that of the object, whose fields later steps may use; "" for the whole
    reply, None for nothing. `applied`: what the record then holds. `recovery`: how a lost reply is settled.
    `accepts`: refusals that mean success. `size_gb`: of the new object; None if nobody knows it yet.
    """
    if id_path is not None:
        drills = {"drills": 1} if subject.lifecycle.scratch else {}
        options["uses"] = {"creates": 1, **drills, **({"gb_added": size_gb} if size_gb != 0 else {})}
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
    """Return a PUT, or another call that sets absolute values: it may be sent again.

    `known_id`: the id of an object that no reply names. `owes`: the work that the reply may demand.
    """
    effect = StepEffect(applied or {}, known_id=known_id, object_path=object_path, owes=owes)
    return _step(subject, name, call, effect=effect, guard=guard, recovery=Repeat(), wait=wait, **options)


def delete(
    subject: Subject,
    path: str | Template,
    read: Read | None = None,
    *,
    item: str | None = None,
    every_s: float = 0.0,
    copy_of: Collection[str] = (),
    snapshots: Collection[str] = (),
    **options: Unpack[CallOptions],
) -> Step:
    """Return the call that deletes the object, and its record with it. A 404 or 410 counts as done.

    `read`: shows the object, or `item` of its list, and is repeated until it is gone. Without one, the
    answer to the call has to do. `copy_of`, `snapshots`: the names of what the object was made from, and of
    its own copies on the platform (`core.uses`).
    """
    effect = StepEffect(accepts=("not_found", "gone"), removes=True)
    call = Call("DELETE", path, **options)
    gone = None
    if read is not None:
        there = Condition("present", any_of=(False,))
        gone = Wait(read, there, DELETE_LAG_S, item, or_gone=True, every_s=every_s)
    names = {"names": [*names_of(subject), *snapshots], "copy_of": [*copy_of]}
    uses: Uses = {"deletes": 1, **_gb_deleted(subject), **names}
    if subject.lifecycle.scratch:
        uses = {}  # no budget keeps a drill from removing its own object
    return _step(subject, "delete", call, effect=effect, recovery=Repeat(), wait=gone, uses=uses)


def names_of(subject: Subject) -> list[str]:
    """Return the texts that the object is known by: its address and its id."""
    return [str(subject.address), str(subject.known_id())]


def _gb_deleted(subject: Subject) -> Uses:
    """The size of an object that has one."""
    sizes = [name for name in SIZES if hasattr(subject.live, name)]
    applied = subject.record.applied if subject.record is not None else {}
    known = [value for name in sizes for value in (getattr(subject.live, name), applied.get(name))]
    return {"gb_deleted": largest(known)} if sizes else {}


def set_each(
    subject: Subject, name: str, call: Call, for_each: ForEach, **options: Unpack[StepOptions]
) -> Step:
    """Return one absolute call for every key of an answer."""
    return _step(subject, name, call, for_each=for_each, recovery=Repeat(), **options)


def wait_only(subject: Subject, wait: Wait, name: str = "wait") -> Step:
    """Return a step that sends nothing and waits for an earlier call to take effect."""
    return _step(subject, name, Call("GET", wait.read.path, service=wait.read.service), wait=wait)


def answer_of(subject: Subject, name: str, path: str, *, or_kept: bool = False) -> OutputRef:
    """Return a reference to the value at the dotted `path` in the reply to the subject's step `name`.

    `or_kept`: a reply without the value leaves the record's.
    """
    return OutputRef(f"{subject.address}#{name}", path, or_kept)


def _step(subject: Subject, name: str, call: Call, **parts: Unpack[_StepFields]) -> Step:
    return Step(f"{subject.address}#{name}", subject.address, call, **parts)
