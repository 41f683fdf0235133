"""Extensions: resources that another service provides to an app, and the secrets in its answer.

Provisioning is one POST with an id that we derive. A repeated POST creates nothing: a provider answers one id
with one result. The keys of that answer's `config` become secrets of the app.

The record holds the fields as sent, and: `provider`; `ours`, the id that we sent (missing for an adopted
extension, which a POST would create a second time); `order`, the body that was first posted with it;
`replacement_name` and `platform_app_name` from the answer; `config.KEY` for every secret set, as a keyed
fingerprint; and `secrets`: `set` once all are, `unknown` where no answer showed them. Any other value of
`secrets` means that some may be missing.

Source: platform API, 2.7, 2.8, 3.4 and 4.5; platform notes, "Extension providers".
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from ipaddress import IPv6Address
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field as Describe

from reconciler.core.advice import command
from reconciler.core.diagnostics import Diagnostic, error
from reconciler.core.model import (
    Action,
    Address,
    Effect,
    FieldChange,
    Impact,
    Reference,
    Resource,
    StateRecord,
)
from reconciler.core.steps import (
    EACH_KEY,
    EACH_VALUE,
    Call,
    Condition,
    ForEach,
    OutputRef,
    Read,
    Repeat,
    Step,
    Template,
    Wait,
)
from reconciler.core.wire import one
from reconciler.kinds.base import Decision, Kind, Subject, Watched, path_of, segment
from reconciler.kinds.manifest import TEXT_PATTERN, Field, Locate, Spec
from reconciler.kinds.roles import OnService, SetsSecrets
from reconciler.kinds.secret.kind import secrets_of
from reconciler.kinds.secret.spec import NAME as SECRET_NAME
from reconciler.kinds.steps import absolute, answer_of, create, delete, set_each, wait_only
from reconciler.services.machines.wire.extension import (
    FAILED_STATUSES,
    GONE_STATUSES,
    SETTLED_STATUSES,
    Extension,
)

ConfigKey = Annotated[str, Describe(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,126}[*]?$")]
IgnoredKey = Annotated[str, Describe(pattern=r"^[A-Za-z_*][A-Za-z0-9_*]{0,126}$")]
Region = Annotated[str, Describe(min_length=1, pattern=r"^[A-Za-z0-9-]*$")]


class ExtensionSpec(Spec):
    """A resource that another service provides to an app; its answer's `config` becomes the app's secrets."""

    provider: str = Describe(description="Name of its ExtensionProvider manifest.")
    name: str | None = Describe(
        None,
        min_length=1,
        pattern=TEXT_PATTERN,
        description="Name at the provider, unique across the platform; default: metadata.name.",
        examples=["shop-db"],
    )
    organization_id: str = Describe(
        min_length=1, pattern=TEXT_PATTERN, description="Unique id of the organization."
    )
    organization_name: str = Describe(
        min_length=1, pattern=TEXT_PATTERN, description="Display name of the organization."
    )
    user_id: str = Describe(min_length=1, pattern=TEXT_PATTERN, description="Id of the provisioning user.")
    user_email: str = Describe(
        min_length=1, pattern=TEXT_PATTERN, description="Alias address that routes to that user."
    )
    user_role: Literal["admin", "member"] = Describe(description="Role of that user.")
    primary_region: str | None = Describe(
        None,
        pattern=r"^[a-z]{3}$",
        description="Three-letter region code where the app writes; for region-aware extensions.",
        examples=["ams"],
    )
    read_regions: list[Region] | None = Describe(
        None, description="Region codes of read replicas.", examples=[["fra", "iad"]]
    )
    config_keys: list[ConfigKey] | None = Describe(
        None,
        description="Which keys of the answer's `config` may become secrets of the app: names, or `PREFIX*`. "
        "If the answer has any other key, no secret is set. Default: all. Variables that change how programs "
        "run are never set.",
        examples=[["DATABASE_URL", "DB_*"]],
    )
    config_ignore: list[IgnoredKey] | None = Describe(
        None,
        description="Keys of the answer's `config` that are passed over, whatever they are: names "
        "or patterns with `*`. Default: none.",
        examples=[["DEBUG_*"]],
    )
    ip_address: str | None = Describe(
        None, min_length=1, description="IPv6 address assigned to it.", examples=["fdaa:0:1::3"]
    )


KEPT_KEY = "config."
# Variables that make an app run other programs, load other code, or trust and call other hosts.
_NEVER = (
    r"(?i)PATH|HOME|SHELL|ENV|IFS|BASH_ENV|CLASSPATH|GCONV_PATH|LD_.*|DYLD_.*|GIT_.*|NODE_OPTIONS|NODE_PATH"
    r"|NODE_EXTRA_CA_CERTS|PYTHON(PATH|HOME|STARTUP|WARNINGS|INSPECT)|PERL5?(LIB|OPT|DB)|RUBY(OPT|LIB)"
    r"|(JAVA_TOOL|_JAVA|JDK_JAVA)_OPTIONS|(HTTPS?|FTP|ALL|NO)_PROXY|(SSL_CERT|REQUESTS_CA|CURL_CA)_.*"
)
POLL_S = 2.0  # between reads of a resource that is being provisioned. Source: platform notes

_HASH_DIGITS = 12
_ANOTHER = "write a second Extension manifest for the new provider, and move the app to it"


def _is_ipv6(text: str) -> bool:
    try:
        return IPv6Address(text).scope_id is None
    except ValueError:
        return False


def _same_regions(want: Any, live: Any) -> bool:
    return isinstance(live, list) and sorted(want) == sorted(live)


class ExtensionKind(OnService, SetsSecrets, Kind):
    """Extensions: provisioned, updated and deprovisioned at the provider that the manifest names."""

    name = "Extension"
    Spec = ExtensionSpec
    in_app = True
    adoptable = True
    lifecycle = ("deletion", "timeout_s", "ignore")
    hides_at_first = False  # it was seen to be ready
    read_alone = True
    records_answers = True
    watched = (Watched("status", "extension-failed", "its status is {after}", FAILED_STATUSES, "ready"),)
    fields = (
        Field("provider", Effect.REFUSED, "record", help=_ANOTHER),
        Field("name", Effect.IN_PLACE),
        Field("organization_id", Effect.IN_PLACE, "record"),
        Field("organization_name", Effect.IN_PLACE, "record"),
        Field("user_id", Effect.IN_PLACE, "record"),
        Field("user_email", Effect.IN_PLACE, "record"),
        Field("user_role", Effect.IN_PLACE, "record"),
        Field("primary_region", Effect.IN_PLACE),
        Field("read_regions", Effect.IN_PLACE, equal=_same_regions),
        Field("ip_address", Effect.IN_PLACE),
    )
    remarks: ClassVar = dict.fromkeys(
        ("config_keys", "config_ignore"), "applies to secrets that are set after the change"
    )
    example: ClassVar = {
        "provider": "example",
        "organization_id": "org_123",
        "organization_name": "Shop Ltd",
        "user_id": "user_123",
        "user_email": "ops@shop.example",
        "user_role": "admin",
    }

    # --- while loading ---

    def references(self, spec: ExtensionSpec, address: Address) -> Iterable[Reference]:
        yield Reference(Address("ExtensionProvider", spec.provider), ("spec", "provider"))

    def check(self, spec: ExtensionSpec, span: Locate) -> Iterable[Diagnostic]:
        if spec.ip_address and not _is_ipv6(spec.ip_address):
            yield error(
                "invalid-value",
                "`ip_address` is not an IPv6 address",
                span("spec", "ip_address"),
                help="write it without prefix length, zone or brackets, such as fdaa:0:1::3",
            )
        for position, key in enumerate(spec.config_keys or ()):
            if _is_never_set(key):
                yield error(
                    "invalid-value",
                    f"`{key}` in `config_keys` is never set: such variables change how programs run",
                    span("spec", "config_keys", position),
                    help="remove it; where the provider sends it, no secret is set",
                )

    def secret_names(self, resource: Resource | None, record: StateRecord | None) -> Collection[str]:
        if record is None:
            return ()
        return [name.removeprefix(KEPT_KEY) for name in record.applied if name.startswith(KEPT_KEY)]

    def app_secrets(self, address: Address, capabilities: frozenset[str]) -> Read | None:
        return secrets_of(address.app or "", capabilities)

    def may_replace(self, resource: Resource | None, name: str) -> bool:
        """A prefix names no key."""
        return resource is not None and name in (resource.spec.config_keys or ())

    # --- observing ---

    def service(self, spec: ExtensionSpec | None, record: StateRecord | None) -> str:
        recorded = record.applied.get("provider") if record is not None else None
        return str(recorded or (spec.provider if spec is not None else ""))

    def read(self, address: Address, id: str | None, capabilities: frozenset[str]) -> Read | None:
        return Read(f"/extensions/{segment(id)}", one(Extension)) if id else None

    def held(self, record: StateRecord, resource: Resource | None) -> Mapping[str, Any]:
        """The provider may have replaced our name by one that the record holds, too."""
        replaced = record.applied.get("replacement_name")
        return {**record.applied, "name": replaced} if replaced else record.applied

    def managed(self, subject: Subject) -> dict[str, Any]:
        """Live values are recorded at an adoption only; other records hold the values that were sent."""
        if subject.record is not None:
            return {}
        return {**super().managed(subject), "provider": subject.spec.provider, "secrets": "unknown"}

    def guards(self, subject: Subject, action: Action) -> tuple[str, ...]:
        shown = (field.name for field in self.fields if field.source == "live")
        return ("id", "present", *shown)

    # --- deciding ---

    def is_open(self, subject: Subject) -> bool:
        """True until provisioning is known to be complete: a POST of the same id continues it."""
        return _is_open(subject)

    def create(self, subject: Subject) -> Decision:
        """Provision, then set the secrets in the answer."""
        if subject.record is not None:
            return self._taken_up(subject, self.compare(subject))
        steps = (_provision(subject), _set_secrets(subject, "provision"))
        reason = "not provisioned yet; the provider's answer will show how many secrets it sets"
        return Decision(Action.CREATE, steps, reason="; ".join([reason, *_ignored(subject)]))

    def compare(self, subject: Subject) -> Sequence[FieldChange]:
        """Compare the manifest with the values sent, and the provider's values with those it should have."""
        record = subject.record
        sent = record.applied if record is not None else {}
        held = self.held(record, subject.resource) if record is not None else _written(subject)
        want = {"provider": subject.spec.provider, **_written(subject)}
        differing = []
        for field in self.fields:
            name = field.name
            if name not in want:
                continue
            if name in sent or "ours" in sent:  # of one that was not adopted, nothing else was ever sent
                before = sent.get(name)
                if before != want[name]:
                    differing.append(FieldChange(name, before, want[name], field.effect))
                    continue
            elif name == "name" and subject.spec.name is None:
                continue  # an adopted one keeps the name that it has
            live = getattr(subject.live, name, None) if field.source == "live" else None
            should = held.get(name, want[name])
            if live is None or live == should or (field.equal is not None and field.equal(should, live)):
                continue
            differing.append(FieldChange(name, live, should, field.effect))
        return differing

    def _taken_up(self, subject: Subject, fields: Sequence[FieldChange]) -> Decision:
        """Post the same order under the same id again. The answer is the same: missing secrets are set."""
        steps = [_provision(subject), _set_secrets(subject, "provision")]
        if fields:
            steps += [_update(subject, fields), _set_secrets(subject, "update", _none_brought(subject))]
        reason = "not all of its secrets are known to be set: the same id is posted again"
        reason = "; ".join([reason, *_ignored(subject)])
        action, *also = (Action.UPDATE, Action.SET) if fields else (Action.SET,)
        return Decision(action, tuple(steps), tuple(fields), reason=reason, also=tuple(also))

    def change(self, subject: Subject, fields: Sequence[FieldChange]) -> Decision:
        """Update differing fields; continue an incomplete provisioning; wait for one that is not ready."""
        if _is_open(subject):
            return self._taken_up(subject, fields)
        record, status = subject.record, subject.live.status
        secrets = record.applied.get("secrets") if record is not None else "unknown"
        complete = secrets in ("set", "unknown")
        if complete and status in FAILED_STATUSES:
            return _failed(subject)
        steps: list[Step] = []
        reasons = []
        if fields or not complete:
            steps += [_update(subject, fields), _set_secrets(subject, "update", _none_brought(subject))]
            if not fields:
                reasons.append("it is not known whether the last update was carried out completely")
        if record is None:
            reasons.append("its config is not known, so no secret is set")
        if steps:
            reasons += _ignored(subject)
            return Decision(Action.UPDATE, tuple(steps), tuple(fields), reason="; ".join(reasons))
        if status not in SETTLED_STATUSES:
            reasons.insert(0, f"still {status}" if status else "the provider does not report its status")
            steps.append(self.settled(subject))
        return Decision(Action.NOOP, tuple(steps), reason="; ".join(reasons))

    def settled(self, subject: Subject) -> Step:
        return wait_only(subject, _ready(subject))

    def remove(self, subject: Subject) -> Decision:
        """Deprovision. The secrets stay set on the app."""
        service = self.service(None, subject.record)
        path = f"/extensions/{segment(subject.live.id)}"
        read = Read(path, one(Extension), service)
        step = delete(subject, path, read, every_s=POLL_S, service=service)
        reason = "left the manifests with lifecycle deletion: delete"
        names = sorted(self.secret_names(None, subject.record))
        if names:
            reason += f"; its secrets stay set on app {subject.address.app}: {', '.join(names)}"
        return Decision(Action.DELETE, (step,), impact=Impact.DATA_LOSS, reason=reason)

    def refusal(self, subject: Subject, change: FieldChange) -> Diagnostic:
        return error(
            "immutable-field",
            f"extension `{subject.address.name}` cannot move from provider `{change.before}` to "
            f"`{change.after}`",
            subject.span("spec", change.path),
            label=f"it was provisioned by {change.before}",
            help=_ANOTHER,
        )


def _written(subject: Subject) -> dict[str, Any]:
    """Return the fields of the provisioning body that the manifest gives, in its order."""
    given = subject.spec.model_dump(exclude={"provider", "config_keys", "config_ignore"}, exclude_none=True)
    return {"name": subject.platform_name(), **given}


def _our_id(subject: Subject) -> str | Template:
    """Return the id that we send: always the same for one address of one state, also after `state mv`."""
    sent = subject.record.applied.get("ours") if subject.record is not None else None
    if sent is not None:
        return str(sent)
    digest = sha256(str(subject.address).encode()).hexdigest()[:_HASH_DIGITS]
    return Template((f"ext-{digest}-", OutputRef("state", "lineage")))


def _is_open(subject: Subject) -> bool:
    """Whether we posted an order that is not known to be carried out completely."""
    applied = subject.record.applied if subject.record is not None else {}
    return "ours" in applied and applied.get("secrets") not in ("set", "unknown")


def _provision(subject: Subject) -> Step:
    """Return the POST, which may be sent again at any time: it always has the order that was posted first.

    A provider need not accept another order under a known id; later differences need a PATCH.
    """
    ordered = subject.record.applied.get("order") if subject.record is not None else None
    order = ordered or _written(subject)
    applied = {} if ordered else {**order, "order": order}
    service, ours = _service(subject), _our_id(subject)
    return create(
        subject,
        Call("POST", "/extensions", {**order, "id": ours}, service),
        id_path="id",
        object_path="",
        applied={
            **applied,
            "replacement_name": answer_of(subject, "provision", "name"),
            "platform_app_name": answer_of(subject, "provision", "platform_app_name"),
            "provider": service,
            "ours": ours,
            "secrets": "pending",
        },
        recovery=Repeat(own_id="ours"),
        wait=_ready(subject, OutputRef(str(subject.address), "id")),
        name="provision",
    )


def _update(subject: Subject, fields: Sequence[FieldChange]) -> Step:
    """Return the PATCH with all parameters, which makes it absolute."""
    wait = _ready(subject, OutputRef(str(subject.address), "id") if _is_open(subject) else None)
    recorded = subject.record.applied if subject.record is not None else {}
    id = recorded.get("ours") or subject.live.id
    body = _written(subject)
    # An answer need not repeat a replacement of the name that was not sent anew.
    renamed = any(change.path == "name" for change in fields)
    answered = {"replacement_name": answer_of(subject, "update", "name", or_kept=not renamed)}
    return absolute(
        subject,
        "update",
        Call("PATCH", wait.read.path, {**body, "id": id}, wait.read.service),
        applied={**body, **answered, "secrets": "pending"},
        wait=wait,
    )


def _set_secrets(
    subject: Subject, after: Literal["provision", "update"], if_none: Mapping[str, Any] | None = None
) -> Step:
    """Return the step that sets the secrets in the answer to the step `after`."""
    app = subject.address.app
    others = {
        name: str(owner)
        for name, owners in subject.sets.items()
        for owner in owners
        if owner != subject.address
    }
    return set_each(
        subject,
        "secrets" if after == "provision" else "secrets-of-update",
        Call("POST", path_of(f"/v1/apps/{app}/secrets/", EACH_KEY), {"value": EACH_VALUE}),
        ForEach(
            answer_of(subject, after, "config"),
            SECRET_NAME,
            KEPT_KEY,
            taken=others,
            allowed=_named(subject.spec.config_keys),
            never=_NEVER,
            ignored=_named(subject.spec.config_ignore or ()),
            again=after == "provision",
            applied={"secrets": "set"},
            if_none=if_none,
        ),
        lane=f"secrets of {app}",  # two answers with one key must not pass each other by
        note="machines see the secrets at their next start or update",
    )


def _named(keys: Sequence[str] | None) -> str:
    """Return a pattern for the keys that the manifest names, where `*` stands for any text; "" for all."""
    patterns = (re.escape(key).replace(r"\*", ".*") for key in keys or ())
    return "" if keys is None else "|".join(patterns) or "(?!)"


def _ignored(subject: Subject) -> list[str]:
    """Return the part of a reason that names `config_ignore`, if it is given."""
    return [f"ignored in its config: {', '.join(keys)}"] if (keys := subject.spec.config_ignore) else []


def _is_never_set(key: str) -> bool:
    """Whether a key of `config_keys`, or any key with its prefix, is one that is never set."""
    return re.fullmatch(_NEVER, key.removesuffix("*") + ("_any" if key.endswith("*") else "")) is not None


def _none_brought(subject: Subject) -> Mapping[str, Any]:
    """Return the recorded state of secrets after a PATCH whose answer has no `config`: the earlier one."""
    ours = subject.record is not None and "ours" in subject.record.applied
    return {"secrets": "set" if ours else "unknown"}


def _ready(subject: Subject, id: OutputRef | None = None) -> Wait:
    """Wait until the extension is ready. `id`: a reference, before the POST is answered."""
    known = id if id is not None else subject.known_id()
    return Wait(
        Read(
            path_of("/extensions/", segment(known) if isinstance(known, str) else known),
            one(Extension),
            _service(subject),
        ),
        Condition("status", any_of=SETTLED_STATUSES, fails=(*FAILED_STATUSES, *sorted(GONE_STATUSES))),
        subject.lifecycle.timeout_s,
        every_s=POLL_S,
    )


def _service(subject: Subject) -> str:
    return KIND.service(subject.spec if subject.resource is not None else None, subject.record)


def _failed(subject: Subject) -> Decision:
    status, forget = subject.live.status, command("state", "forget", subject.address)
    problem = error(
        "extension-failed",
        f"extension `{subject.address.name}` ({subject.live.id}) has status {status}",
        subject.span("metadata", "name"),
        help=f"ask its provider; if you do not need it any more, delete it there and run `{forget}`",
        advice=(forget,),
    )
    return Decision(Action.REFUSED, diagnostics=(problem,), reason=f"status {status}")


KIND = ExtensionKind()
