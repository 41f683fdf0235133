"""App secrets: set when the value's keyed fingerprint differs from the record's. Values are never read back.

Source: platform API, 2.5 and 4.3; platform notes, "Secrets".
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from reconciler.core.advice import command
from reconciler.core.diagnostics import Diagnostic, error
from reconciler.core.model import (
    SENSITIVE,
    Action,
    Address,
    Effect,
    FieldChange,
    Impact,
    Path,
    Reference,
    Relocation,
    Resource,
    StateRecord,
)
from reconciler.core.steps import Call, OutputRef, Read, SecretRef, UnlessRecorded
from reconciler.core.wire import many
from reconciler.kinds.base import (
    PENDING_VALUE,
    UNCHECKED_VALUE,
    Decision,
    Kind,
    Subject,
    compare_fields,
    path_of,
    segment,
)
from reconciler.kinds.manifest import Field, Locate
from reconciler.kinds.roles import Declared, Importable, NamesResources, SendsSecret, SetsSecrets
from reconciler.kinds.secret.spec import (
    _PLACEHOLDER,
    ANY_NAME,
    NAME,
    SecretSource,
    SecretSpec,
    _placeholder,
    parse_template,
)
from reconciler.kinds.source import check_source, source_ref
from reconciler.kinds.steps import absolute, answer_of, delete
from reconciler.services.machines.wire.secret import Secret

# Before the address of an object that the template reads: a field of the record, with the object's id then.
_READS = "reads "
_IN_TEMPLATE = "value_from.template:"  # likewise: the path of a field in a plan
UNKNOWN = "unknown"
_NEW = "(new)"  # for the id of an object that this plan makes
_RENAMED = "write a second Secret manifest for the new name; the old secret stays set until you unset it"


LIST = "secrets.list"  # the capability


def secrets_of(app: str, capabilities: frozenset[str]) -> Read | None:
    """Return the GET that lists an app's secrets; None where the platform has no list."""
    if LIST not in capabilities:
        return None
    return Read(f"/v1/apps/{segment(app)}/secrets", many(Secret), sensitive=True)


class SecretKind(SendsSecret, SetsSecrets, NamesResources, Importable, Kind):
    """Secrets: set by one absolute call, compared by keyed fingerprints in the record."""

    name = "Secret"
    Spec = SecretSpec
    in_app = True
    lifecycle = ("deletion", "ignore")
    name_pattern = NAME
    remake_missing = True
    capabilities: ClassVar = {
        "secrets.list": "Lists the names of an app's secrets, never their values: for `drift` and `import`.",
        "secrets.delete": "Deletes a secret. Without it, a secret is deleted by hand.",
    }
    list_capability = LIST
    fields = (Field("name", Effect.REFUSED, "record", help=_RENAMED),)
    remarks: ClassVar = {
        "value_from": "the secret is set again if the value differs, whatever its source (the keyed "
        "fingerprints of this value and of the last one sent are compared)"
    }
    example: ClassVar = {"value_from": {"env": "DB_PASSWORD"}}

    # --- while loading ---

    def references(self, spec: SecretSpec, address: Address) -> Iterable[Reference]:
        for part in parse_template(spec.value_from.template or "")[0]:
            if isinstance(part, OutputRef):
                yield Reference(Address.parse(part.source), ("spec", "value_from", "template"))

    def check(self, spec: SecretSpec, span: Locate) -> Iterable[Diagnostic]:
        yield from check_source(spec.value_from, ("spec", "value_from"), span)
        if spec.value_from.template is not None:
            for problem in parse_template(spec.value_from.template)[1]:
                yield error(
                    "bad-template",
                    problem,
                    span("spec", "value_from", "template"),
                    help="write ${env:NAME} or ${Kind/name:field.path}; $${ stands for a plain ${",
                )

    def follow(self, spec: SecretSpec, moved: Relocation) -> Iterable[tuple[Path, Any]]:
        """Yield the template, with addresses as they are in this environment."""
        if spec.value_from.template is None:
            return

        def rename(found: re.Match[str]) -> str:
            part = _placeholder(found["inner"] or "")
            if not isinstance(part, OutputRef):
                return found[0]
            address = Address.parse(part.source)
            to = moved.addresses.get(address._replace(ordinal=0))
            return f"${{{to._replace(ordinal=address.ordinal)}:{part.path}}}" if to is not None else found[0]

        yield ("spec", "value_from", "template"), _PLACEHOLDER.sub(rename, spec.value_from.template)

    def secret(self, resource: Resource) -> SecretRef:
        source: SecretSource = resource.spec.value_from
        if source.template is not None:
            return SecretRef("template", parts=tuple(parse_template(source.template)[0]))
        return source_ref(source, resource.written_in("spec", "value_from", *source.place))

    def secret_names(self, resource: Resource | None, record: StateRecord | None) -> Collection[str]:
        if resource is not None:
            return (resource.spec.name or resource.address.name,)
        return (record.applied.get("name", record.address.name),) if record is not None else ()

    # --- observing ---

    def read(self, address: Address, id: str | None, capabilities: frozenset[str]) -> Read | None:
        return self.listing(address.app or "", capabilities)

    def guards(self, subject: Subject, action: Action) -> tuple[str, ...]:
        return ("id", "digest")

    # --- importing ---

    def listing(self, place: str, capabilities: frozenset[str]) -> Read | None:
        return secrets_of(place, capabilities)

    def declare(self, live: Any, place: str, given: Mapping[str, Any]) -> Declared:
        if not re.fullmatch(ANY_NAME, live.name):
            return Declared(place, live.name, refused="a Secret manifest cannot contain its name")
        variable = re.sub(r"^(?=\d)|[^A-Za-z0-9_]", "_", live.name)
        comment = "its value cannot be read. To manage it, say where the value comes from and uncomment:"
        return Declared(place, live.name, {"value_from": {"env": variable}}, {(): (comment,)}, skeleton=True)

    # --- deciding ---

    def create(self, subject: Subject) -> Decision:
        reason = "not yet managed" if subject.record is None else "no longer set on the platform"
        if subject.fingerprint == UNCHECKED_VALUE:
            reason += ", its value was not checked"
        return self._set(subject, (), reason)

    def compare(self, subject: Subject) -> Sequence[FieldChange]:
        """Compare fingerprint and name with the record, and the digest with the platform's list."""
        assert subject.record is not None
        recorded = subject.record.applied
        differing = subject.fingerprint is not None and subject.fingerprint != recorded.get("fingerprint")
        fields = compare_fields(self.fields, subject)
        name = subject.platform_name()
        known = recorded.get("name") or subject.record.id or name
        if not fields and name != known:  # after a move: another name would be another secret
            fields.append(FieldChange("name", known, name, Effect.REFUSED))
        if differing or _overwritten(subject):
            fields.append(FieldChange("value", SENSITIVE, SENSITIVE, Effect.WRITE_ONLY))
        return fields

    def change(self, subject: Subject, fields: Sequence[FieldChange]) -> Decision:
        """Set the value again; an unread value is compared while the plan runs."""
        if not fields:
            return Decision(Action.NOOP)
        if subject.fingerprint == PENDING_VALUE and not _overwritten(subject):
            return self._set(subject, fields, "the value may change", unless_same=True)
        if subject.fingerprint == UNCHECKED_VALUE and not _overwritten(subject):
            return self._set(subject, fields, "not checked, compared when applied", unless_same=True)
        return self._set(subject, fields, "the value differs")

    def _set(
        self, subject: Subject, fields: Sequence[FieldChange], reason: str, *, unless_same: bool = False
    ) -> Decision:
        assert subject.resource is not None
        name = subject.platform_name()
        value = self.secret(subject.resource)
        named_now = {ref.source: OutputRef(ref.source, "id", or_kept=True) for ref in _read_by(value)}
        renamed = list(_renamed(subject, named_now))
        step = absolute(
            subject,
            "set",
            Call("POST", f"/v1/apps/{subject.address.app}/secrets/{segment(name)}", {"value": value}),
            known_id=name,
            object_path="",
            applied={
                "name": name,
                "fingerprint": value,
                "digest": answer_of(subject, "set", "digest"),
                "version": answer_of(subject, "set", "version"),
                **{_READS + address: None for address in _named_before(subject)},
                **{_READS + address: id for address, id in named_now.items()},
            },
            guard=UnlessRecorded("fingerprint") if unless_same else None,
        )
        written = fields or (FieldChange("value", None, SENSITIVE, Effect.WRITE_ONLY),)
        staged = "; ".join(
            (reason, *map(_in_words, renamed), "machines see it at their next start or update")
        )
        stops = any(change.before for change in renamed) and any(change.after == _NEW for change in renamed)
        impact = Impact.REPOINT if stops else Impact.ONLINE
        return Decision(Action.SET, (step,), (*written, *renamed), impact, staged)

    def remove(self, subject: Subject) -> Decision:
        """Delete with capability `secrets.delete`, or else advise a person."""
        if "secrets.delete" not in subject.capabilities:
            forget = command("state", "forget", subject.address)
            return Decision(
                Action.RETAIN,
                reason="the platform API documents no delete for secrets: unset it by hand, then run "
                f"`{forget}`",
                advice=(forget,),
            )
        assert subject.record is not None
        name = subject.record.applied.get("name", subject.address.name)
        path = path_of(f"/v1/apps/{subject.address.app}/secrets/", segment(name))
        listing = self.listing(subject.address.app or "", subject.capabilities)
        step = delete(subject, path, listing, item=name, sensitive=True)
        return Decision(Action.DELETE, (step,), reason="left the manifests with lifecycle deletion: delete")


def _read_by(value: SecretRef) -> Iterator[OutputRef]:
    """Yield the references of a template to other objects."""
    yield from (part for part in value.parts if isinstance(part, OutputRef))


def _named_before(subject: Subject) -> Mapping[str, str]:
    """Return the ids of the objects that the template read when it was last sent, by their addresses."""
    applied = subject.record.applied if subject.record is not None else {}
    return {name.removeprefix(_READS): id for name, id in applied.items() if id and name.startswith(_READS)}


def _renamed(subject: Subject, named_now: Collection[str]) -> Iterator[FieldChange]:
    """Yield the objects that the template stops naming or begins to name, by their ids.

    There are none where a list shows that the secret is not set. It is unknown what a secret names that
    somebody else set, or that was set before such ids were recorded.
    """
    name = subject.platform_name()
    there = subject.live is not None or bool(subject.neighbours.matching({"name": name}))
    if "secrets.list" in subject.capabilities and not there:
        return
    named, made = _named_before(subject), set(map(str, subject.made))
    ids = {str(address): id for address, id in subject.referred.items()}
    now = {address: _NEW if address in made else ids.get(address, UNKNOWN) for address in named_now}
    for address in sorted({*named, *(now if named else made)}):
        before, after = named.get(address, None if named else UNKNOWN), now.get(address)
        if (after is None and before in now.values()) or (before is None and after in named.values()):
            continue  # the same object, whose record has another address now
        if before != after:
            yield FieldChange(_IN_TEMPLATE + address, before, after, Effect.WRITE_ONLY)


def _in_words(change: FieldChange) -> str:
    """Return one result of `_renamed` as a clause of the plan's reason."""
    address = change.path.removeprefix(_IN_TEMPLATE)
    if change.after is None:
        return f"it will no longer name {address} ({change.before})"
    new = f"a new {address}" if change.after == _NEW else f"{address} ({change.after})"
    return f"it will name {new}" + (f", before: {change.before}" if change.before else "")


def _overwritten(subject: Subject) -> bool:
    """Whether somebody else has set the secret since: the platform shows another digest than ours."""
    recorded = subject.record.applied.get("digest") if subject.record is not None else None
    live = getattr(subject.live, "digest", None)
    return live is not None and recorded is not None and live != recorded


KIND = SecretKind()
