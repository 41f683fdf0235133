"""Restore drills: what is restored on a schedule into a scratch object, looked at, and deleted again.

The policy owns nothing: what a drill makes is recorded under an address of its own
(`core.model.SCRATCH_NAME`).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator
from pydantic import Field as Describe

from reconciler.core.cron import checked_cron
from reconciler.core.diagnostics import Diagnostic, error
from reconciler.core.errors import ExtraMissing
from reconciler.core.model import Address, Path, Reference, Relocation, Resource
from reconciler.core.spans import SpanText
from reconciler.core.steps import SecretRef
from reconciler.kinds import find_kinds
from reconciler.kinds.manifest import TEXT_PATTERN, Locate, Spec
from reconciler.kinds.roles import HoldsData, NamesResources, SendsSecret
from reconciler.kinds.source import ValueSource, check_source, source_ref
from reconciler.policies.base import Policy, traits
from reconciler.policies.retention import Selector, needed_traits

_DISTINCT = 63 - len("drill-") - 9  # the longest name that leaves room for the rest of the scratch object's
_VALUE = r"(?:-?[0-9]+(?:\.[0-9]+)?|'(?:[^'\\]|'')*'|true|false)"
_COMPARISON = re.compile(
    rf"(?:<=|>=|!=|<>|==|=|<|>)\s*{_VALUE}|between\s+{_VALUE}\s+and\s+{_VALUE}", re.IGNORECASE
)


def parse_expect(text: str) -> str:
    """Return the comparison as SQL writes it behind a column. ValueError says how to write one."""
    comparison = text.strip()
    if not _COMPARISON.fullmatch(comparison):
        raise ValueError(
            f"`{text}` is not a comparison: write an operator and a number, true, false or a text in single "
            "quotes (without a backslash), such as `> 1000`, `= 'ok'` or `between 1 and 5`"
        )
    return comparison.removeprefix("=") if comparison.startswith("==") else comparison


class Before(Spec):
    """A point in time, rather than the newest backup."""

    before: SpanText = Describe(description="So long before the drill begins.", examples=["1h"])


class Selected(Selector):
    """All resources of a kind that have the app and all of the labels; each is restored by itself."""

    kind: str = Describe(pattern=TEXT_PATTERN, description="Kind of the resources.", examples=["Volume"])


class Connect(Spec):
    """How the restored cluster is looked into. Its host and port are those that the platform shows."""

    user: str = Describe(
        min_length=1, pattern=TEXT_PATTERN, description="A role that may read all of it.", examples=["drill"]
    )
    password_from: ValueSource = Describe(
        description="Where its password comes from.", examples=[{"env": "DRILL_PASSWORD"}]
    )
    database: str = Describe(
        min_length=1, pattern=TEXT_PATTERN, description="The database for `checks`.", examples=["app"]
    )
    endpoint: Literal["direct", "pooler"] = Describe("direct", description="The endpoint that is asked.")
    sslmode: Literal["disable", "require", "verify-ca", "verify-full"] = Describe(
        "require", description="As in libpq; disable only where the endpoint is on loopback."
    )


class Check(Spec):
    """A query whose one value is compared. No row is ever printed or kept."""

    sql: str = Describe(min_length=1, description="A query that reads one value.", examples=["select 1"])
    expect: Annotated[str, AfterValidator(lambda text: parse_expect(text) and text)] = Describe(
        description="The comparison that has to hold.", examples=["> 1000"]
    )


class RestoreDrillSpec(Spec):
    """Restores a backup or snapshot into a scratch object, looks at it, and deletes it again."""

    of: str | Selected = Describe(
        description="What is restored: an address, or all resources with an app and labels.",
        examples=["PostgresCluster/orders"],
    )
    schedule: str | None = Describe(
        None,
        description="When the controller or `reconcile drill` may run it: a cron expression in UTC. Without "
        "it, `reconcile drill ADDRESS` only.",
        examples=["0 3 * * 0"],
    )
    from_: Literal["newest"] | Before = Describe(
        "newest",
        alias="from",
        description="The newest backup or snapshot, or a point in time.",
        examples=["newest", {"before": "1h"}],
    )
    recover_within: SpanText = Describe(
        "30m", description="The longest time that a restore may take; a slower one is reported."
    )
    max_age: SpanText = Describe(
        "8d", description="The longest time since the last good drill; then it is overdue."
    )
    connect: Connect | None = Describe(
        None,
        description="How a cluster is looked into; without it, only that it became ready is known.",
        examples=[{"user": "drill", "password_from": {"env": "DRILL_PASSWORD"}, "database": "app"}],
    )
    checks: list[Check] = Describe([], max_length=50, description="Queries of your own.")


class RestoreDrill(SendsSecret, NamesResources, Policy):
    """Restore drills: declared next to what they prove, run by `reconcile drill` and the controller."""

    name = "RestoreDrill"
    Spec = RestoreDrillSpec
    in_app = False
    name_pattern = rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{_DISTINCT - 1}}}"
    example: ClassVar = {"of": "PostgresCluster/orders", "schedule": "0 3 * * 0", "recover_within": "30m"}

    def references(self, spec: RestoreDrillSpec, address: Address) -> Iterable[Reference]:
        source = source_of(spec)
        if source is not None:
            yield Reference(source, ("spec", "of"))

    def check(self, spec: RestoreDrillSpec, span: Locate) -> Iterable[Diagnostic]:
        if isinstance(spec.of, str) and source_of(spec) is None:
            help = "one looks like PostgresCluster/orders, or Volume/shop/data"
            yield error("invalid-value", "`of` is not an address", span("spec", "of"), help=help)
        if spec.schedule is not None:
            place = span("spec", "schedule")
            try:
                checked_cron(spec.schedule)
            except ValueError as wrong:
                yield error("invalid-value", f"`schedule`: {wrong}", place)
            except ExtraMissing as missing:
                yield error("policy-engine-missing", missing.message, place, help=missing.help)
        if spec.connect is not None:
            yield from check_source(spec.connect.password_from, ("spec", "connect", "password_from"), span)
        elif spec.checks:
            message = "`checks` need `connect`: nothing else says how the restored cluster is asked"
            place, help = span("spec", "checks"), "add `connect`, or remove them"
            yield error("missing-field", message, place, help=help)

    def secret(self, resource: Resource) -> SecretRef | None:
        """Return the password for the restored cluster."""
        if (connect := resource.spec.connect) is None:
            return None
        source: ValueSource = connect.password_from
        return source_ref(source, resource.written_in("spec", "connect", "password_from", *source.place))

    def follow(self, spec: RestoreDrillSpec, moved: Relocation) -> Iterable[tuple[Path, Any]]:
        """Yield the address, or the apps, of this environment."""
        source = source_of(spec)
        if source is not None and source in moved.addresses:
            yield ("spec", "of"), str(moved.addresses[source])
        elif isinstance(spec.of, Selected):
            for app in sorted(moved.apps.get((spec.of.kind, spec.of.app or ""), ())):
                yield ("spec", "of", "app"), app


def source_of(spec: RestoreDrillSpec) -> Address | None:
    """Return the address that is restored; None for a selector, or for a text that is not an address."""
    if not isinstance(spec.of, str):
        return None
    try:
        return Address.parse(spec.of)
    except ValueError:
        return None


def drilled(drill: Resource, resources: Iterable[Resource]) -> list[Resource]:
    """Return those of `resources` that `drill` restores, in their order."""
    of = drill.spec.of
    if isinstance(of, str):
        if (address := source_of(drill.spec)) is None:
            return []
        same = (each for each in resources if each.address[:3] == address[:3])
        return [each for each in same if address.ordinal in (0, each.address.ordinal)]  # 0: all of a `count`
    needed = needed_traits(of.kind, of)
    return [resource for resource in resources if needed.issubset(traits(resource))]


def declared_drills(
    policies: Iterable[Resource], resources: Sequence[Resource]
) -> Iterator[tuple[Resource, Resource]]:
    """Yield each drill among `policies` with each of the resources that it restores."""
    for drill in policies:
        if isinstance(drill.spec, RestoreDrillSpec):
            for source in drilled(drill, resources):
                yield drill, source


def undrillable(
    policies: Iterable[Resource], resources: Sequence[Resource], capabilities: frozenset[str]
) -> Iterator[Diagnostic]:
    """Yield an error for each drill that cannot run on this platform, or that is of nothing."""
    for drill in policies:
        if not isinstance(drill.spec, RestoreDrillSpec):
            continue
        sources, newest = drilled(drill, resources), not isinstance(drill.spec.from_, Before)
        if not sources and isinstance(drill.spec.of, Selected):
            yield error("invalid-value", "no resource is selected", drill.span("spec", "of"))
        for name in sorted({source.address.kind for source in sources}):
            kind = find_kinds()[name].role(HoldsData)
            why = kind.why_no_drill(capabilities, newest=newest) if kind is not None else "it has no copies"
            if why:
                yield error(
                    "capability-missing",
                    f"`{drill.address}` cannot restore a {name}: {why}",
                    drill.span("spec", "of"),
                    help="where the platform can do it, name it in `platform.capabilities` of reconcile.yaml",
                )


KIND = RestoreDrill()
