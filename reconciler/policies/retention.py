"""Retention policies: values and objectives that many volumes share. They own nothing on the platform.

Source: DESIGN, section 2.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, ClassVar

from pydantic import Field as Describe

from reconciler.core.model import Path, Relocation
from reconciler.core.percents import Percent
from reconciler.kinds.manifest import Spec
from reconciler.kinds.roles import NamesResources
from reconciler.policies.base import GivesValues, Policy, Trait, app_trait, kind_trait, label_trait


class Selector(Spec):
    """Which resources: those of the app and with all of the labels. An empty selector means all."""

    app: str | None = Describe(None, description="Those of this app only.", examples=["shop"])
    labels: dict[str, str] | None = Describe(
        None, description="Those with all of these labels only.", examples=[{"tier": "prod"}]
    )


def needed_traits(kind: str, selector: Selector) -> set[Trait]:
    """Return the traits of the resources of `kind` that the selector means."""
    in_app = [app_trait(selector.app)] if selector.app is not None else []
    return {kind_trait(kind), *in_app, *(label_trait(*label) for label in (selector.labels or {}).items())}


class RetentionPolicySpec(Spec):
    """Values that many volumes share, how old their snapshots and how full they may be. Owns no object."""

    selector: Selector = Describe(description="Volumes to which the policy applies; {} means all.")
    snapshot_retention: int | None = Describe(
        None, ge=1, le=60, description="Days to keep snapshots, unless the volume says otherwise."
    )
    auto_backup_enabled: bool | None = Describe(
        None, description="Automatic daily snapshots, unless the volume says otherwise."
    )
    snapshot_max_age_h: int | None = Describe(
        None,
        ge=1,
        le=87_600,  # ten years
        description="Largest age of the newest usable snapshot in hours. If it is older, a new snapshot "
        "is taken.",
    )
    alert_at: Percent | None = Describe(
        None,
        description="How full a volume may be; it is reported from there on, unless its `lifecycle.alert_at` "
        "says otherwise.",
        examples=["80%"],
    )


class RetentionPolicy(GivesValues, NamesResources, Policy):
    """Retention policies: give volumes values, and the age of the newest snapshot as an objective."""

    name = "RetentionPolicy"
    Spec = RetentionPolicySpec
    in_app = False
    example: ClassVar = {
        "selector": {"labels": {"tier": "prod"}},
        "snapshot_retention": 14,
        "snapshot_max_age_h": 168,
    }

    def selects(self, spec: RetentionPolicySpec) -> Collection[Trait]:
        return needed_traits("Volume", spec.selector)

    def gives(self, spec: RetentionPolicySpec) -> Mapping[str, Any]:
        return spec.model_dump(exclude={"selector"}, exclude_none=True)

    def follow(self, spec: RetentionPolicySpec, moved: Relocation) -> Iterable[tuple[Path, Any]]:
        """Yield the apps of this environment that hold the volumes of the selected app."""
        for app in sorted(moved.apps.get(("Volume", spec.selector.app or ""), ())):
            yield ("spec", "selector", "app"), app


KIND = RetentionPolicy()
