"""The fields of a Postgres cluster's manifest. Source: platform API, 3.1 and 4.1."""

import re
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema
from pydantic import Field as Describe

from reconciler.kinds.manifest import FREE_NAME, TEXT_PATTERN, Spec

PLANS = ("basic", "starter", "launch", "scale", "Performance")

_PLAN_BY_LOWER = {plan.lower(): plan for plan in PLANS}

_RFC3339_WITH_OFFSET = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")

_PLAN_IN_ANY_CASE = "|".join("".join(f"[{c.upper()}{c.lower()}]" for c in plan) for plan in PLANS)


def _canonical_plan(value: object) -> object:
    return _PLAN_BY_LOWER.get(value.lower(), value) if isinstance(value, str) else value


def _point_in_time(value: str) -> str:
    if not _RFC3339_WITH_OFFSET.fullmatch(value):
        raise ValueError(
            "must be an RFC 3339 time with an explicit offset, such as 2026-01-31T12:00:00Z "
            "or 2026-01-31T14:00:00+02:00"
        )
    try:
        moment = datetime.fromisoformat(value.upper()).astimezone(UTC)
    except OverflowError:
        raise ValueError("lies outside the years 1 to 9999 in UTC") from None
    return moment.isoformat().replace("+00:00", "Z")


class Restore(Spec):
    """A new cluster from the backup or the past of another one, which is left unchanged."""

    from_: str = Describe(
        alias="from",
        min_length=1,
        pattern=TEXT_PATTERN,
        description="Name of the PostgresCluster manifest to restore from, or a platform id.",
        examples=["orders"],
    )
    backup_id: str | None = Describe(
        None,
        min_length=1,
        pattern=TEXT_PATTERN,
        description="Label of the backup to restore.",
        examples=["20260131-120000F"],
    )
    pitr_time: Annotated[str, AfterValidator(_point_in_time)] | None = Describe(
        None,
        description="Moment to restore: RFC 3339 with an explicit offset.",
        examples=["2026-01-31T12:00:00Z"],
    )


class PostgresClusterSpec(Spec):
    """A managed Postgres cluster: created or restored once. The platform changes none in place.

    `org_slug`, `plan` and `region` are required, except with `restore`.
    """

    org_slug: str | None = Describe(
        None, min_length=1, pattern=TEXT_PATTERN, description="Organization slug, or `personal`."
    )
    plan: (
        Annotated[
            Literal["basic", "starter", "launch", "scale", "Performance"],
            BeforeValidator(_canonical_plan),
            WithJsonSchema(  # names for completion, and a pattern of all accepted texts
                {"type": "string", "anyOf": [{"enum": [*PLANS]}, {"pattern": f"^({_PLAN_IN_ANY_CASE})$"}]}
            ),
        ]
        | None
    ) = Describe(None, description="Selects CPU and memory; letter case does not matter.")
    region: str | None = Describe(
        None, min_length=1, pattern=TEXT_PATTERN, description="Region code of the primary."
    )
    name: str | None = Describe(
        None,
        max_length=255,
        pattern=FREE_NAME,
        description="Name on the platform, which may hold spaces; default: metadata.name.",
        examples=["orders"],
    )
    disk_size_gb: int | None = Describe(
        None,
        ge=10,
        le=1000,
        description="Disk per replica in GB. Without it, the platform decides; known: 10.",
    )
    pg_major_version: Literal["16", "17"] | None = Describe(
        None, description='Quote it: "16" or "17". Without it, the platform decides; known: "16".'
    )
    pool_mode: Literal["session", "transaction"] | None = Describe(
        None, description="Write-only. Without it, the platform decides; known: session."
    )
    postgis_enabled: bool | None = Describe(
        None,
        description="Must be true for geospatial extensions to be enabled later. Without it, the platform "
        "decides; known: false.",
    )
    restore: Restore | None = Describe(
        None,
        description="Create this cluster from a backup or a past moment of another cluster. The other "
        "cluster does not change. "
        "Everything except `name` comes from that cluster.",
        examples=[{"from": "orders", "pitr_time": "2026-01-31T12:00:00Z"}],
    )
