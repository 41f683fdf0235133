"""The steps that kinds plan, one constructor for each way that a call can go."""

from collections.abc import Mapping
from typing import Any

from reconciler.core.steps import (
    Call,
    ForEach,
    Guard,
    OutputRef,
    Owes,
    Recovery,
    Repeat,
    Step,
    StepEffect,
    Template,
    Wait,
)
from reconciler.kinds.base import Subject


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
) -> Step:
    """A call that makes something, which the reply names at `id_path`: made twice, there would be two.

    `id_path` is None where it is not the object of the record.
    """
    effect = StepEffect(applied, id_path, object_path=object_path, accepts=accepts)
    return _step(subject, name, call, effect=effect, recovery=recovery, wait=wait)


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
    **words: Any,
) -> Step:
    """A PUT, or another call that may be sent again. `words`: after, lane, note, if_refused."""
    effect = StepEffect(applied or {}, known_id=known_id, object_path=object_path, owes=owes)
    return _step(subject, name, call, effect=effect, guard=guard, recovery=Repeat(), wait=wait, **words)


def delete(subject: Subject, path: str | Template, wait: Wait | None = None, **of_call: Any) -> Step:
    """The object and its record go; one that is not there any more is gone. `of_call`: service, sensitive."""
    effect = StepEffect(accepts=("not_found", "gone"), removes=True)
    call = Call("DELETE", path, **of_call)
    return _step(subject, "delete", call, effect=effect, recovery=Repeat(), wait=wait)


def set_each(subject: Subject, name: str, call: Call, for_each: ForEach, **words: Any) -> Step:
    """One absolute call for each key of an answer. `words`: lane, note."""
    return _step(subject, name, call, for_each=for_each, recovery=Repeat(), **words)


def wait_only(subject: Subject, wait: Wait, name: str = "wait") -> Step:
    """No call: what was begun earlier is waited for."""
    return _step(subject, name, Call("GET", wait.read.path, service=wait.read.service), wait=wait)


def answer_of(subject: Subject, name: str, path: str, *, or_kept: bool = False) -> OutputRef:
    """What the reply to the subject's step `name` holds at the dotted `path`."""
    return OutputRef(f"{subject.address}#{name}", path, or_kept)


def _step(subject: Subject, name: str, call: Call, **rest: Any) -> Step:
    return Step(f"{subject.address}#{name}", subject.address, call, **rest)
