"""Differences that a manifest leaves alone (`lifecycle.ignore`), and what is said of them.

Only differences of an object that is there: what is missing, destroyed or cannot be read is never ignored,
and a create sends every field.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec.structs import replace

from reconciler.core.diagnostics import Diagnostic, Severity, warning
from reconciler.core.model import FieldChange, Ignore, Resource


def in_force(resource: Resource, now: datetime) -> tuple[Resource, list[Diagnostic]]:
    """`resource` with the ignores that hold on the day of `now` (UTC); a warning for each that is over."""
    if not resource.ignores:  # as most
        return resource, []
    today = now.date()
    over = [each for each in resource.ignores if each.until is not None and each.until < today]
    if not over:
        return resource, []
    kept = tuple(each for each in resource.ignores if each not in over)
    expired = () if resource.address.ordinal else over  # once for all objects of one manifest
    return replace(resource, ignores=kept), [_expired(resource, each) for each in expired]


def split_ignored(
    resource: Resource | None, changes: Iterable[FieldChange]
) -> tuple[list[FieldChange], list[Diagnostic]]:
    """The changes that count, and a remark for each that the manifest leaves alone."""
    if resource is None or not resource.ignores:
        return list(changes), []
    by_field = {each.field: each for each in resource.ignores}
    counting: list[FieldChange] = []
    remarks: list[Diagnostic] = []
    for change in changes:
        ignore = by_field.get(change.path.partition(".")[0])
        if ignore is None:
            counting.append(change)
        else:
            remarks.append(_left_alone(resource, ignore, change))
    return counting, remarks


def ignored_fields(resource: Resource | None) -> Sequence[str]:
    return [each.field for each in resource.ignores] if resource is not None and resource.ignores else ()


def _left_alone(resource: Resource, ignore: Ignore, change: FieldChange) -> Diagnostic:
    until = f" until {ignore.until}" if ignore.until is not None else ""
    return Diagnostic(
        "ignored-difference",
        Severity.INFO,
        f"`{resource.address}`: `{change.path}` differs ({change.before} -> {change.after}), which is "
        f"ignored{until}: {ignore.reason}",
        resource.span(*ignore.path, "field"),
    )


def _expired(resource: Resource, ignore: Ignore) -> Diagnostic:
    return warning(
        "ignore-expired",
        f"`{resource.address}`: `{ignore.field}` was ignored until {ignore.until} ({ignore.reason}), "
        "and is compared again",
        resource.span(*ignore.path, "until"),
        help="check whether the reason is still valid: set a later date, or remove the entry",
    )
