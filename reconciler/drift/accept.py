"""Accepting drift: what the platform shows is written into the manifests. All of it, or nothing.

There only files change. The record still holds what was last applied, so that an edit that is never merged
goes on being drift; the next apply records the new value, and sends nothing. Of an object that no manifest
names, the record takes the value.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from pydantic import BaseModel

from reconciler.core.advice import command
from reconciler.core.diagnostics import Diagnostic, Severity, Span
from reconciler.core.errors import Refused
from reconciler.core.model import Address, Change, FieldChange, Resource, StateRecord
from reconciler.drift.acceptance import Acceptance, Accepted, Refusal
from reconciler.drift.find import Drift, Drifted
from reconciler.drift.sharing import Environments, patch, shared_values
from reconciler.kinds import find_kinds
from reconciler.kinds.base import Kind, Subject
from reconciler.manifests.files import STDIN
from reconciler.manifests.reading.scalars import written
from reconciler.manifests.writing.replace import Replacement, replace_files, replaceable
from reconciler.manifests.writing.rewrite import Edit, Rewritten, cannot_accept, rewrite, with_value
from reconciler.manifests.writing.write import scalar
from reconciler.planning.declared import Desired
from reconciler.planning.drift import drift_of
from reconciler.project.project import Project
from reconciler.project.records import not_recorded


def accept(
    drift: Drift,
    desired: Desired,
    root: Path,
    addresses: Collection[Address],
    environments: Environments | None = None,
) -> Acceptance:
    """Write the drift of `addresses` (none: all of it) into the manifests below `root`.

    `environments`: those that share the manifests; None where there are none. Raises ReconcilerError, with
    all files as they were, when one cannot be written.
    """
    plan = drift.plan
    known = {*desired.by_address, *drift.without_manifest}
    if unknown := [address for address in addresses if address not in known]:
        raise not_recorded(unknown[0], known)
    chosen = [change for change in plan.changes if not addresses or change.address in addresses]
    errors = [each for each in plan.diagnostics if each.severity is Severity.ERROR]
    if addresses and all(address in drift.drifted for address in addresses):
        errors = [each for each in errors if each.code != "unreadable"]  # these were read
    if errors and (chosen or addresses):
        raise Refused(
            "not every object could be read, so nothing was accepted; no file was changed",
            errors,
            help="see the errors; or give the PATHs of manifests whose objects can all be read",
        )
    edits: list[Edit] = []
    refused: list[Refusal] = []
    records: list[StateRecord] = []
    for change in chosen:
        found = drift.drifted[change.address]
        kept = {field.path: field.after for field in change.fields if _is_recorded(found, field)}
        if kept:
            records.append(replace(found.record, applied={**found.record.applied, **kept}))
        for field in change.fields:
            if field.path in kept:
                continue
            made = _edit(found, field, desired.policies)
            if isinstance(made, Diagnostic):
                refused.append(Refusal(change.address, field.path, made))
            else:
                edit, edited = made
                edits.append(edit)
                found = replace(found, resource=edited)  # all of its fields have to be valid together
    accepted, replacements = _rewritten(edits, root, refused)
    if refused:
        blocked = {each.address for each in refused}
        others = [change.address for change in chosen if change.address not in blocked]
        return Acceptance((), sorted(refused, key=_order), plan.changes, others)
    replace_files(replacements)
    moved = {change.address for change in chosen}
    accepted.sort(key=lambda item: item.span or ())
    resources = {to: found.resource for to, found in drift.drifted.items() if found.resource is not None}
    remarks = list(_unapplied_edits(accepted, chosen))
    if environments is not None:
        remarks += shared_values(accepted, resources, environments)
    accepted += (
        Accepted(change.address, field.path, None, field.before, field.after)
        for change in chosen
        for field in change.fields
        if _is_recorded(drift.drifted[change.address], field)
    )
    return Acceptance(
        accepted,
        (),
        tuple(change for change in plan.changes if change.address not in moved),
        quiet=[address for address in addresses if address not in moved],
        remarks=remarks,
        records=records,
    )


async def keep_records(project: Project, records: Collection[StateRecord]) -> None:
    """Store `records`, as `accept` made them. Raises Refused where one has changed meanwhile."""
    actor = project.actor(project.new_id())
    for record in records:
        async with actor.leased(project.store, [record.scope]) as lease:
            now = (await project.store.load()).records.get(record.address)
            if now is None or now.serial != record.serial:
                raise Refused(
                    f"the record of `{record.address}` has changed meanwhile", (), help="run this again"
                )
            entry = actor.decided({"accepted": record.id}, record.address)
            await project.store.commit(lease, [entry], [record])


def _order(refusal: Refusal) -> tuple[str, str]:
    return str(refusal.address), refusal.path


def _unapplied_edits(accepted: Sequence[Accepted], chosen: Sequence[Change]) -> Iterator[Diagnostic]:
    """A remark for each value that somebody had asked for and no apply has brought about yet."""
    recorded = {(change.address, field.path): field.before for change in chosen for field in change.fields}
    for each in accepted:
        last = recorded[each.address, each.path]
        if each.before not in (None, last):
            yield Diagnostic(
                "unapplied-edit",
                Severity.INFO,
                f"`{each.address}`: `{each.path}: {scalar(each.before)}` was written here and never applied "
                f"(last applied: {scalar(last)})",
                each.span,
                help=f"write {scalar(each.before)} here again if it is still wanted: the next apply sends it",
            )


# --- from a drifted field to an edit ---


def _edit(
    drifted: Drifted, field: FieldChange, policies: Sequence[Resource]
) -> tuple[Edit, Resource] | Diagnostic:
    """The edit that makes the manifest ask for what is there, and what it then declares.

    Or why there is none that leaves nothing to do.
    """
    resource, live = drifted.resource, field.after
    kind = find_kinds()[drifted.record.address.kind]
    if field.path != "id" and any(field.path == each.path for each in kind.watched):
        return cannot_accept(
            f"`{drifted.record.address}`: `{field.path}: {live}` is never right",
            resource.span("metadata", "name") if resource is not None else None,
            "look at it on the platform; `--save-baseline` stores it as known drift",
        )
    if resource is None:
        return _not_there(drifted.record.address, field, None)
    path = ("spec", field.path)
    problem = (
        _unwritable(resource, field)
        if field.path not in {each.name for each in kind.fields}
        else _another_place(resource, path, live, policies)
    )
    if problem is not None:
        return problem
    edit = Edit(resource, path, live)
    edited = with_value(edit, kind)
    if isinstance(edited, Diagnostic):
        return edited
    return _left_to_do(kind, replace(drifted, resource=edited), field) or (edit, edited)


def _is_recorded(drifted: Drifted, field: FieldChange) -> bool:
    """Whether the record takes what is there: no manifest names the object, or could hold the value."""
    watched = [each for each in find_kinds()[drifted.record.address.kind].watched if each.path == field.path]
    if field.path == "id" or not all(each.is_recorded for each in watched):
        return False
    return bool(watched) or drifted.resource is None


def _unwritable(resource: Resource, field: FieldChange) -> Diagnostic:
    address = resource.address
    if field.path in resource.objectives:
        return cannot_accept(
            f"`{address}`: `{field.path}: {field.before}` is an objective, which has no value to accept",
            resource.span("metadata", "name"),
            "the next apply meets it again; or change it in the policy that gives it",
        )
    if field.path == "id":
        return _not_there(address, field, resource.span("metadata", "name"))
    return cannot_accept(
        f"`{address}`: a secret's value cannot be read back, the platform only shows that it has changed",
        resource.span("metadata", "name"),
        "put the new value into its source, or let the next apply set yours again",
    )


def _not_there(address: Address, field: FieldChange, name: Span | None) -> Diagnostic:
    """`name`: where the manifest names it; None without a manifest."""
    forget, remove = command("state", "forget", address), "remove its manifest and " if name else ""
    return cannot_accept(
        f"`{address}` ({field.before}) does not exist on the platform, so there is no value to accept",
        name,
        f"check the token and the app first; if it was really deleted, {remove}run `{forget}`",
        (forget,),
    )


def _another_place(
    resource: Resource, path: tuple[str, ...], live: Any, policies: Sequence[Resource]
) -> Diagnostic | None:
    """A refusal for a value that another file gave, that is none, or that several objects share."""
    address, name, want = resource.address, ".".join(path[1:]), getattr(resource.spec, path[-1], None)
    source = next((resource.inherited[path[:n]] for n in (2, 1, 0) if path[:n] in resource.inherited), None)
    if source is not None:
        given = any(policy.span(*path) == source for policy in policies)  # else an overlay's, which wins
        return cannot_accept(
            f"`{address}`: `{name}` does not come from its own manifest",
            source,
            f"edit it here for all resources that share it, or write `{name}: {scalar(live)}` into the "
            "manifest at "
            f"{_at(resource.span('metadata', 'name'))}"
            if given
            else "edit it here, in the overlay, which wins over the manifest; if this entry is a pattern and "
            f"the others must keep their value, write `{patch(resource, path, live)}` behind it",
        )
    if not isinstance(live, str | int | float) or isinstance(want, BaseModel):
        shown = want.model_dump(exclude_none=True) if isinstance(want, BaseModel) else want
        return cannot_accept(
            f"`{address}`: `{name}` is not a single value but {json.dumps(shown)}: edit it by hand",
            resource.span(*path),
            f"edit it so that it allows {live}",
        )
    count = getattr(resource.spec, "count", None) or 1
    if count > 1 or address.ordinal:
        return cannot_accept(
            f"`{address}`: `{name}` is one value for the {count} objects of `spec.count`",
            resource.span("spec", "count"),
            f"write {written(live)} at {_at(resource.span(*path))} if it holds for all of them, or one "
            "manifest for each",
        )
    return None


def _left_to_do(kind: Kind, drifted: Drifted, field: FieldChange) -> Diagnostic | None:
    """A refusal where drift or plan would go on about a field that the manifest asks for as it is."""
    resource, record, live = drifted.resource, drifted.record, drifted.live
    assert resource is not None
    change, _ = drift_of(kind, record, resource, live)
    subject = Subject(resource.address, resource, record, live, record.created_at)
    left = [*(change.fields if change is not None else ()), *kind.compare(subject)]
    if all(each.path.partition(".")[0] != field.path for each in left):
        return None
    plan = command("plan")
    return cannot_accept(
        f"`{resource.address}`: with {written(field.after)} as `{field.path}` in its manifest, the next "
        "apply would still send a change",
        resource.span("spec", field.path),
        f"edit it by hand, and look at what `{plan}` says then",
        (plan,),
    )


def _at(span: Span | None) -> str:
    return span.place if span is not None else "its manifest"


# --- from edits to files ---


def _rewritten(
    edits: Sequence[Edit], root: Path, refused: list[Refusal]
) -> tuple[list[Accepted], list[Replacement]]:
    """The new files, in memory; what cannot be made is added to `refused`."""
    by_file: dict[str, list[Edit]] = {}
    for edit in edits:
        by_file.setdefault(edit.resource.file, []).append(edit)
    accepted: list[Accepted] = []
    replacements: list[Replacement] = []
    for file, group in by_file.items():
        path = _path(file, root)
        why, data = ("came from standard input", b"") if file == STDIN else _read(path)
        if why:
            problem = cannot_accept(
                f"`{file}` {why}", group[0].resource.span(*group[0].path), "edit its source by hand"
            )
            refused += (Refusal(edit.resource.address, edit.name, problem) for edit in group)
            continue
        made: Rewritten = rewrite(data, file, group)
        refused += (
            Refusal(group[index].resource.address, group[index].name, problem)
            for index, problem in made.problems.items()
        )
        if not made.problems:
            replacements.append(Replacement(path, made.data, data))
            accepted += (
                Accepted(edit.resource.address, edit.name, span, before, edit.value)
                for edit, span, before in zip(group, made.spans, made.before, strict=True)
            )
    return accepted, replacements


def _read(path: Path) -> tuple[str, bytes]:
    """Why the file cannot be replaced ("" when it can), and what it holds."""
    why = replaceable(path)
    try:
        return why, b"" if why else path.read_bytes()
    except OSError as failure:
        return f"cannot be read: {failure.strerror}", b""


def _path(file: str, root: Path) -> Path:
    """Of a manifest by its name in diagnostics: below `root`, or as it was given on the command line."""
    given = Path(file).absolute()
    return given if ".." in Path(file).parts or Path(file).is_absolute() else root / file
