"""Buckets: created, switched in place, deleted. A bucket never changes its region."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from reconciler.kinds.bucket.spec import BucketSpec
from reconciler.services.machines.wire.bucket import Bucket

from reconciler.core.model import Action, Address, Effect, FieldChange, Impact
from reconciler.core.steps import FOUND_ID, Call, Find, OutputRef, Read
from reconciler.core.wire import many, one
from reconciler.kinds.base import REPLACED, Decision, Kind, Subject, path_of, segment
from reconciler.kinds.manifest import Field
from reconciler.kinds.roles import Declared, Importable, declared_fields
from reconciler.kinds.steps import absolute, create, delete

_NEW_BUCKET = "write a second Bucket manifest, and move the objects to it"


class BucketKind(Importable, Kind):
    name = "Bucket"
    Spec = BucketSpec
    in_app = True
    adoptable = True
    lifecycle = ("deletion", "ignore")
    watched = (REPLACED,)
    fields = (
        Field("region", Effect.REFUSED, help=_NEW_BUCKET),
        Field("name", Effect.REFUSED, help=_NEW_BUCKET),
        Field("versions", Effect.IN_PLACE),
    )
    example: ClassVar = {"region": "ams", "versions": True}

    def read(self, address: Address, id: str | None, capabilities: frozenset[str]) -> Read | None:
        return self.listing(address.app or "", capabilities)

    def match(self, spec: BucketSpec, address: Address) -> Mapping[str, Any]:
        return {"name": spec.name or address.name}

    def listing(self, place: str, capabilities: frozenset[str]) -> Read:
        return Read(f"/v1/apps/{segment(place)}/buckets", many(Bucket))

    def declare(self, live: Any, place: str, given: Mapping[str, Any]) -> Declared:
        spec, comments = declared_fields(BucketSpec, ("region", "versions"), live, {"versions": False})
        return Declared(place, live.name, spec, comments)

    def create(self, subject: Subject) -> Decision:
        listing = self.listing(subject.address.app or "", subject.capabilities)
        body = subject.spec.model_dump(exclude_none=True) | {"name": subject.platform_name()}
        step = create(
            subject,
            Call("POST", listing.path, body),
            id_path="id",
            object_path="",
            applied=body,
            recovery=Find(listing, {"name": body["name"]}, one=_itself(subject, FOUND_ID)),
        )
        return Decision(Action.CREATE, (step,), reason="not on the platform")

    def change(self, subject: Subject, fields: Sequence[FieldChange]) -> Decision:
        if not fields:
            return Decision(Action.NOOP)
        body = {field.path: field.after for field in fields}
        call = Call("PUT", _itself(subject, subject.known_id()).path, body)
        return Decision(Action.UPDATE, (absolute(subject, "update", call, applied=body),), tuple(fields))

    def remove(self, subject: Subject) -> Decision:
        read = _itself(subject, subject.known_id())
        reason = "left the manifests with lifecycle deletion: delete"
        return Decision(
            Action.DELETE, (delete(subject, read.path, read),), impact=Impact.DATA_LOSS, reason=reason
        )


def _itself(subject: Subject, id: str | OutputRef) -> Read:
    known = segment(id) if isinstance(id, str) else id
    return Read(path_of(f"/v1/apps/{subject.address.app}/buckets/", known), one(Bucket))


KIND = BucketKind()
