"""Accepts drift: writes the platform's values into the manifests. All of them, or none.

Only files change. The record keeps the value that was last applied, so an edit that is never merged remains
drift. The next apply records the new value, and sends nothing. The record of an object without a manifest
takes the value itself.
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
from reconciler.drift.acceptance import Acceptance, Accepted, Environments, Refusal, patch, shared_values
from reconciler.drift.find import Drift, Drifted
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
    """Write the drift of `addresses` (none: of all objects) into the manifests below `root`.

    `environments`: those that share the manifests; None where there are none. Raises ReconcilerError, with
    all files unchanged, when one cannot be written.
    """
    plan = drift.plan
    known = {*desired.by_address, *drift.without_manifest}
    if unknown := [address for address in addresses if address not in known]:
        raise not_recorded(unknown[0], known)
    chosen = [change for change in plan.changes if not addresses or change.address in addresses]
    errors = [problem for problem in plan.diagnostics if problem.severity is Severity.ERROR]
    if addresses and all(address in drift.drifted for address in addresses):
        errors = [problem for problem in errors if problem.code != "unreadable"]  # these were read
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
        recorded = {field.path: field.after for field in change.fields if _is_recorded(found, field)}
        if recorded:
            records.append(replace(found.record, applied={**found.record.applied, **recorded}))
        for field in change.fields:
            if field.path in recorded:
                continue
            made = _edit(found, field, desired.policies)
            if isinstance(made, Diagnostic):
                refused.append(Refusal(change.address, field.path, made))
            else:
                edit, edited = made
                edits.append(edit)
                found = replace(found, resource=edited)  # all of its fields must be valid together
    accepted, replacements = rewritten(edits, root, refused)
    if refused:
        blocked = {refusal.address for refusal in refused}
        others = [change.address for change in chosen if change.address not in blocked]
        refused.sort(key=lambda refusal: (str(refusal.address), refusal.path))
        return Acceptance((), refused, plan.changes, others)
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
    """Store the records of `accept`. Raises Refused where another run has changed one meanwhile."""
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


def _unapplied_edits(accepted: Sequence[Accepted], chosen: Sequence[Change]) -> Iterator[Diagnostic]:
    """Yield a remark for each replaced value that somebody had edited and no apply has sent yet."""
    recorded = {(change.address, field.path): field.before for change in chosen for field in change.fields}
    for value in accepted:
        last, edit = recorded[value.address, value.path], scalar(value.before)
        if value.before not in (None, last):
            yield Diagnostic(
                "unapplied-edit",
                Severity.INFO,
                f"`{value.address}`: `{value.path}: {edit}` was written here and never applied "
                f"(last applied: {scalar(last)})",
                value.span,
                help=f"write {edit} here again if it is still wanted: the next apply sends it",
            )


# --- from a drifted field to an edit ---


def _edit(
    drifted: Drifted, field: FieldChange, policies: Sequence[Resource]
) -> tuple[Edit, Resource] | Diagnostic:
    """Return the edit that writes the live value, and the resource that the manifest then declares.

    A diagnostic where no edit is possible, or where drift or plan would still have something to do.
    """
    resource, live = drifted.resource, field.after
    kind = find_kinds()[drifted.record.address.kind]
    if field.path != "id" and any(field.path == watched.path for watched in kind.watched):
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
        if field.path not in {declared.name for declared in kind.fields}
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
    """Whether the record takes the live value, since no manifest names the object or can hold the value."""
    kind = find_kinds()[drifted.record.address.kind]
    watched = [found for found in kind.watched if found.path == field.path]
    if field.path == "id" or not all(found.is_recorded for found in watched):
        return False
    return bool(watched) or drifted.resource is None


def _unwritable(resource: Resource, field: FieldChange) -> Diagnostic:
    """The refusal of a value that no field of a manifest can hold."""
    address = resource.address
    if field.path in resource.objectives:
        return cannot_accept(
            f"`{address}`: `{field.path}: {field.before}` is an objective, which has no value to accept",
            resource.span("metadata", "name"),
            "meet it again, as the next apply does where it can; or change it where it is given",
        )
    if field.path == "id":
        return _not_there(address, field, resource.span("metadata", "name"))
    return cannot_accept(
        f"`{address}`: a secret's value cannot be read back, the platform only shows that it has changed",
        resource.span("metadata", "name"),
        "put the new value into its source, or let the next apply set yours again",
    )


def _not_there(address: Address, field: FieldChange, name: Span | None) -> Diagnostic:
    """The refusal for an object that is gone. `name`: the place of its name; None without a manifest."""
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
    """The refusal of a value from another file, of several values, or for several objects; None: none."""
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
    """The refusal where drift or plan would still report a field that the manifest declares as it is."""
    resource, record, live = drifted.resource, drifted.record, drifted.live
    assert resource is not None
    drift, _ = drift_of(kind, record, resource, live)
    subject = Subject(resource.address, resource, record, live, record.created_at)
    left = [*(drift.fields if drift is not None else ()), *kind.compare(subject)]
    if all(change.path.partition(".")[0] != field.path for change in left):
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


def rewritten(
    edits: Sequence[Edit], root: Path, refused: list[Refusal]
) -> tuple[list[Accepted], list[Replacement]]:
    """Return the accepted values and the new files, in memory. Adds the edits that fail to `refused`."""
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
    """The reason why a file cannot be replaced ("" when it can), and its content."""
    why = replaceable(path)
    try:
        return why, b"" if why else path.read_bytes()
    except OSError as failure:
        return f"cannot be read: {failure.strerror}", b""


def _path(file: str, root: Path) -> Path:
    """The path of a manifest by its name in diagnostics: below `root`, or as the command line gave it."""
    given = Path(file).absolute()
    return given if ".." in Path(file).parts or Path(file).is_absolute() else root / file
