"""Turns documents into resources, one after the other, and checks them together once all were read."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from operator import attrgetter
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from reconciler.core.diagnostics import Diagnostic, Severity, Span, error, hide, warning
from reconciler.core.model import ALERT_AT, Address, Lifecycle, Path, Relocation, Resource
from reconciler.core.words import did_you_mean
from reconciler.kinds.base import Kind
from reconciler.kinds.manifest import GUARDRAILS, ManifestKind
from reconciler.kinds.roles import NamesResources, claim_of, holds_secrets, most_gb, reserved_name
from reconciler.manifests.files import holds_patches, is_of_sops
from reconciler.manifests.overlays.merge import with_values
from reconciler.manifests.overlays.overlay import Overlays
from reconciler.manifests.reading.compose import Composed, Document, compose
from reconciler.manifests.reading.lines import Known
from reconciler.manifests.validation.defaults import Defaults
from reconciler.manifests.validation.envelope import API_VERSION, context, ignores_of, manifest_models
from reconciler.manifests.validation.problems import (
    MOST_PROBLEMS,
    describe,
    explain,
    no_kind,
    surprises,
    unknown_fields,
    without_values,
    wrong_type,
)
from reconciler.manifests.validation.references import reference_cycles, unknown_references
from reconciler.manifests.validation.salvage import mark_nulls, take_out_literals, valid_part
from reconciler.moves.records import ends_outside, move_problems
from reconciler.policies.moved import KIND as MOVED

_MOST_SPECS = 10_000  # to look for equal ones among
_DEFAULT_LIFECYCLE = Lifecycle()
_NOTHING: Mapping[Any, Any] = {}  # shared by most resources: three mappings of 64 bytes matter


class Effective(Struct, frozen=True):
    """A valid manifest as it is in the environment: `value` as YAML would hold it, and its `files`."""

    address: Address
    value: Mapping[str, Any]
    files: tuple[str, ...]


@cache
def _models(kinds: tuple[ManifestKind, ...]) -> dict[str, type[BaseModel]]:
    return manifest_models({kind.name: kind for kind in kinds})


def _id_of(kind: ManifestKind) -> Callable[[Any], str | None] | None:
    """Return a function for the existing object's id in a manifest; None for kinds without one."""
    named = kind.adoptable or kind.id_path != ManifestKind.id_path
    return attrgetter(".".join(map(str, kind.id_path))) if named else None


class Loader:
    """One load: the documents read so far, as resources and problems."""

    def __init__(self, kinds: Mapping[str, ManifestKind], known: Known, *, keep: bool = False) -> None:
        self.kinds = kinds
        self.known = known
        self.keep = keep
        self.effective: list[Effective] = []
        self.overlays: Overlays | None = None
        self.relocation: Relocation | None = None
        self.models = _models(tuple(kinds.values()))
        self.contexts = {name: context(kind) for name, kind in kinds.items()}
        self.ids = {name: _id_of(kind) for name, kind in kinds.items()}
        self.secrets = {name for name, kind in kinds.items() if holds_secrets(kind)}
        self.problems: list[Diagnostic] = []
        self.resources: dict[Address, Resource] = {}
        self.adopted: dict[tuple[str, str], Resource] = {}
        self.claimed: set[Address] = set()  # of invalid documents
        self.invalid: list[Resource] = []  # the valid parts of these
        self.complete = True  # no file hides documents from us

    def compose(self, file: str, data: bytes, signs: Sequence[bytes] = ()) -> list[Document]:
        """Return the documents of a file, except those of sops, and note the file's problems.

        `signs`: further bytes that mean that the file, of an overlay, may hold a secret.
        """
        documents = self.known.documents(file, data) if not signs else None
        composed = Composed(documents, []) if documents is not None else compose(data, file)
        if not composed.complete:
            self.complete = False
            # The kinds in an unreadable file are not known. A misspelt secret still has a value or a source,
            # and in an overlay a pattern may stand for its kind.
            signs = (*map(str.encode, self.secrets), b"value", b"_from", *signs)
            private = any(sign in data for sign in signs)
            self.problems += composed.diagnostics if private else composed.shown()
        elif not composed.documents:
            help = "write a manifest, or remove the file"
            self.problems.append(
                warning("empty-file", "no manifest is in this file", Span(file, 1, 1, 1), help=help)
            )
        return [document for document in composed.documents if not self.is_passed_over(document.value)]

    def is_passed_over(self, value: Any) -> bool:
        """Whether a document is a file of sops, and not an overlay that somebody encrypted."""
        return is_of_sops(value) and not holds_patches(value, self.kinds)

    def read(self, file: str, data: bytes) -> None:
        """Add all documents of a file, up to too many errors."""
        errors = 0
        for document in self.compose(file, data):
            if errors > MOST_PROBLEMS:
                self.complete = False
                return
            known = len(self.problems)
            self.document(document)
            if len(self.problems) > known:
                errors += sum(problem.severity is Severity.ERROR for problem in self.problems[known:])

    def document(self, document: Document) -> None:
        """Validate a document, and add its resources or its problems."""
        kind = self.kind_of(document)
        if kind is None:
            self.complete = False
            return
        secret = kind.name in self.secrets
        document = document.hidden() if secret else document.shown()
        value = mark_nulls(document.value) if document.has_nulls else document.value
        problems: list[Diagnostic] = []
        unknown: list[Path] = []
        try:
            manifest = self.validated(value, kind, share=not (secret or document.has_nulls))
        except ValidationError as failure:
            remaining: ValidationError | None = failure
            if secret:
                value, problems = take_out_literals(value, kind, document)
                remaining = self.invalid_part(value, kind) if problems else failure
            if remaining is not None:
                problems += explain(remaining, self.models[kind.name], document)
            spec = valid_part(value.get("spec"), kind.Spec)
            if spec is not None:
                problems += kind.check(spec, lambda *path: document.span(path))
            unknown = unknown_fields(failure, self.models[kind.name], document.value)
            problems = list(without_values(problems, unknown, document))
            self.claim(document, spec, kind)
        else:
            names = kind.role(NamesResources) if self.relocation is not None else None
            if names is not None:
                manifest, document = self.follow(manifest, kind, names, document, problems)
            problems += self.add(manifest, kind, document)
        self.problems += problems
        if document.surprises:
            found = surprises(document, problems, unknown)
            self.problems += islice(found, MOST_PROBLEMS + 1)

    def validated(self, value: Any, kind: ManifestKind, *, share: bool) -> Any:
        """Return the manifest. Raises ValidationError. `share`: equal specs may be one object."""
        model, context = self.models[kind.name], self.contexts[kind.name]
        if not share:
            return model.model_validate(value, context=context)
        specs, key = self.known.specs, (kind, to_json(value.get("spec")))
        spec = specs.get(key)
        if spec is not None:
            try:
                return model.model_validate({**value, "spec": spec}, context=context)
            except ValidationError:  # the document as written is validated below, for its own errors
                pass
        manifest: Any = model.model_validate(value, context=context)
        if len(specs) < _MOST_SPECS:
            specs[key] = manifest.spec
        return manifest

    def invalid_part(self, value: Any, kind: ManifestKind) -> ValidationError | None:
        """Return the errors of a manifest; None if it is valid now."""
        try:
            self.models[kind.name].model_validate(value, context=self.contexts[kind.name])
        except ValidationError as failure:
            return failure
        return None

    def kind_of(self, document: Document) -> ManifestKind | None:
        """Return the kind that the document names; None, with a problem noted, if there is no such kind."""
        value = document.value
        problem: Diagnostic | None = None
        if not isinstance(value, dict):
            found = describe(value, secret=True)
            problem = error(
                "not-a-manifest",
                f"expected a mapping with `apiVersion`, `kind`, `metadata` and `spec`, found {found}",
                document.span(()),
            )
            self.problems.append(problem)
            return None
        version, name = value.get("apiVersion", API_VERSION), value.get("kind")
        if version == API_VERSION and isinstance(name, str) and name in self.kinds:
            return self.kinds[name]
        shown = document.shown()
        if version != API_VERSION:
            problem = error(
                "unknown-api-version",
                f"expected `apiVersion: {API_VERSION}`",
                shown.span(("apiVersion",)),
                help=f"write `apiVersion: {API_VERSION}`, or keep manifests of other programs elsewhere",
            )
        elif "kind" not in value:
            problem = no_kind(shown, list(self.kinds))
        elif not isinstance(name, str):
            problem = wrong_type("text", ("kind",), shown)
        elif name in GUARDRAILS:
            problem = error(
                "guardrail-elsewhere",
                f"a {name} stands in a file of its own, not among manifests",
                shown.span(("kind",)),
                help="move it to guardrails/, or where `guardrails` of reconcile.yaml says",
            )
        else:
            problem = error(
                "unknown-kind",
                f"there is no kind `{name}`",
                shown.span(("kind",)),
                help=did_you_mean(name, list(self.kinds)) or f"kinds are {', '.join(self.kinds)}",
            )
        lines = [shown.span((key,)).line for key in value]
        shares_its_line = len(set(lines)) < len(lines)  # with a value that may be a secret
        # A part of a manifest, cut off by `---`, may begin with the value of a secret.
        cut_off = "kind" not in value and next(iter(value), "") not in ("apiVersion", "metadata")
        private = shares_its_line or cut_off or _may_follow_a_text(document, problem)
        self.problems.append(hide(problem) if private else problem)
        return None

    def follow(
        self,
        manifest: Any,
        kind: ManifestKind,
        names: NamesResources,
        document: Document,
        problems: list[Diagnostic],
    ) -> tuple[Any, Document]:
        """Return the manifest, and its document, with names as they are in this environment."""
        assert self.relocation is not None
        values: dict[tuple[str | int, ...], Any] = {}
        for path, value in names.follow(manifest.spec, self.relocation):
            if values.setdefault(path, value) != value:
                problems.append(
                    error(
                        "split-app",
                        f"what `{'.'.join(map(str, path))}` selects is in several apps of this environment: "
                        f"{values[path]} and {value}",
                        document.span(path),
                        help="move all of it into one app, or write one manifest for each in the overlay",
                    )
                )
        if not values:
            return manifest, document
        document = with_values(document, values)
        value = mark_nulls(document.value) if document.has_nulls else document.value
        return self.models[kind.name].model_validate(value, context=self.contexts[kind.name]), document

    def add(self, manifest: Any, kind: ManifestKind, document: Document) -> Iterator[Diagnostic]:
        """Add the resources of a valid manifest. Yield problems of its kind, and duplicates."""
        metadata, spec = manifest.metadata, manifest.spec
        id_of = self.ids[kind.name]
        adopt_id = id_of(manifest) if id_of is not None else None
        lifecycle = manifest.lifecycle if kind.lifecycle else None
        alert_at = getattr(lifecycle, ALERT_AT, None)
        address = Address(kind.name, metadata.name, metadata.app if kind.in_app else None)
        resource = Resource(
            address,
            spec,
            lifecycle.lifecycle() if lifecycle else _DEFAULT_LIFECYCLE,
            document.file,
            document.spans,
            metadata.labels or _NOTHING,
            adopt_id,
            tuple(kind.references(spec, address)),
            {ALERT_AT: alert_at} if alert_at is not None else _NOTHING,  # it wins over those of policies
            ignores=ignores_of(lifecycle.ignore) if lifecycle else (),
            grow=getattr(lifecycle, "grow", None),
            inherited=document.overlaid or _NOTHING,
            base=self.overlays.base(address) if self.overlays is not None else None,
        )
        yield from kind.check(spec, resource.span)
        yield from reserved_name(kind, resource)
        if resource.grow is not None and most_gb(kind, spec) is None:
            yield error(
                "missing-field",
                "`lifecycle.grow` needs a range to grow in",
                resource.span("lifecycle", "grow"),
                help="write `size_gb: {min: 10, max: 50}`, with sizes of yours",
            )
        first = self.resources.get(address)
        if first is not None:
            yield error(
                "duplicate-address",
                f"{address} is declared twice",
                resource.span("metadata", "name"),
                notes=(f"first at {_at(first, 'metadata', 'name')}", *_moved_by(resource, first)),
                help="rename one of the two, or remove it",
            )
            return
        count = getattr(spec, "count", None) or 1
        if adopt_id is not None:
            yield from self.adopt(resource, kind, count)
        self.resources[address] = resource
        if self.keep:
            sources = dict.fromkeys([document.file, *(span.file for span in document.overlaid.values())])
            self.effective.append(Effective(address, document.value, tuple(sources)))
        for ordinal in range(1, count):
            numbered = address._replace(ordinal=ordinal)
            self.resources[numbered] = replace(resource, address=numbered)

    def adopt(self, resource: Resource, kind: ManifestKind, count: int) -> Iterator[Diagnostic]:
        """Yield the problems of a manifest that names an existing object."""
        assert resource.adopt_id is not None
        path = kind.id_path
        if count > 1:
            yield error(
                "id-with-count",
                f"`metadata.id` names one object, but `count` is {count}",
                resource.span("metadata", "id"),
                help="remove `id`: matching objects are adopted, or write one manifest for each",
            )
        claim = claim_of(kind, resource.adopt_id, resource.spec, None)
        first = self.adopted.setdefault((kind.name, claim), resource)
        if first is not resource:
            yield error(
                "duplicate-id",
                f"{first.address} and {resource.address} adopt the same object",
                resource.span(*path),
                notes=(f"first at {_at(first, *path)}",),
            )

    def claim(self, document: Document, spec: Any, kind: ManifestKind) -> None:
        """Remember the address of an invalid document, so that references to it are not errors.

        Its own references are checked as far as `spec`, its valid part, holds them (None: not at all).
        """
        written = document.value.get("metadata")
        metadata: Mapping[str, Any] = written if isinstance(written, dict) else {}
        name, app = metadata.get("name"), metadata.get("app")
        if not isinstance(name, str) or (kind.in_app and not isinstance(app, str)):
            return
        address = Address(kind.name, name, app if kind.in_app else None)
        self.claimed.add(address)
        if spec is not None:
            references = tuple(kind.references(spec, address))
            self.invalid.append(
                Resource(
                    address,
                    spec,
                    _DEFAULT_LIFECYCLE,
                    document.file,
                    document.spans,
                    references=references,
                    inherited=document.overlaid,
                )
            )

    def finish(self, *, check_overlays: bool) -> tuple[list[Resource], list[Resource]]:
        """Return resources and policies, after giving defaults and checking references.

        `check_overlays`: all manifests were read, so that a patch without a match is a mistake.
        """
        if self.overlays is not None:
            self.problems += self.overlays.problems
            if check_overlays and self.complete:
                self.problems += self.overlays.unused()
            self._leave_out_moves(self.overlays)
        owned = {name for name, kind in self.kinds.items() if isinstance(kind, Kind)}
        policies = [item for item in self.resources.values() if item.address.kind not in owned]
        resources = [item for item in self.resources.values() if item.address.kind in owned]
        if policies:
            defaults = Defaults(policies, self.kinds)
            resources = [defaults.apply(resource) for resource in resources]
            self.problems += defaults.conflicts()
            if self.complete and not self.claimed:
                self.problems += defaults.unused()
            self.problems += move_problems(policies, self.kinds, self.resources, self._may_be_declared)
        referring = [item for item in (*self.resources.values(), *self.invalid) if item.references]
        if referring:
            found = [*reference_cycles(self.resources)]
            if self.complete:
                found += unknown_references(
                    referring,
                    self.resources,
                    self._may_be_declared,
                    self.overlays.why_missing if self.overlays is not None else lambda address: (),
                )
            self.problems += found
        return resources, policies

    def _leave_out_moves(self, overlays: Overlays) -> None:
        """Remove Moved entries whose targets this environment removes."""

        def taken_out(address: Address) -> bool:
            whole = self.resources.get(address._replace(ordinal=0))
            if whole is None:
                return overlays.removes(address._replace(ordinal=0))
            return address not in self.resources and ("spec", "count") in whole.inherited

        entries = [item for item in self.resources.values() if item.address.kind == MOVED.name]
        gone = {entry.address for entry in ends_outside(entries, taken_out)}
        if gone:
            self.resources = {
                address: item for address, item in self.resources.items() if address not in gone
            }
            self.effective = [item for item in self.effective if item.address not in gone]

    def _may_be_declared(self, address: Address) -> bool:
        return not self.complete or address._replace(ordinal=0) in self.claimed


def _may_follow_a_text(document: Document, problem: Diagnostic) -> bool:
    """Whether the last line of a quoted text may stand before the place of `problem`: only in braces."""
    assert problem.span is not None
    first = min(document.key_spans.values(), default=None)
    if first is not None and first[:3] == document.spans[()][:3]:
        return False
    others = (document.spans[key,] for key in document.value if key not in ("apiVersion", "kind"))
    return any(span.line < problem.span.line for span in others)


def _moved_by(second: Resource, first: Resource) -> Iterator[str]:
    """Yield notes that name the overlays which brought two resources to one address."""
    whose: dict[str, list[str]] = {}
    for resource, name in ((second, "this one"), (first, "the first")):
        span = resource.span("metadata", "app")
        if span is not None and span.file != resource.file:
            whose.setdefault(span.place, []).append(name)
    for place, names in whose.items():
        yield f"the app of {' and of '.join(names)} is given at {place}"


def _at(resource: Resource, *path: str | int) -> str:
    span = resource.span(*path)
    return span.place if span else resource.file
