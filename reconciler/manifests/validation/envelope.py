"""The model of a whole manifest: `spec` with metadata and lifecycle, built once for every kind.

`lifecycle.ignore` names fields whose differences are left alone, with a reason and an end.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationInfo, create_model
from pydantic_core import PydanticKnownError

from reconciler.core.model import Deletion, Ignore, Lifecycle
from reconciler.core.percents import Grow, Percent
from reconciler.core.spans import SpanText
from reconciler.core.wire import ID
from reconciler.kinds.manifest import ManifestKind, Spec

_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def context(kind: ManifestKind) -> Mapping[str, Any]:
    """Return the validation context of a kind: the fields that it can ignore.

    With them in the model, every kind would need one of its own for `lifecycle`, which costs 10 ms.
    """
    return {"fields": [field.name for field in kind.fields]}


def _known(name: str, info: ValidationInfo) -> str:
    fields = (info.context or {}).get("fields")
    if fields is None or name in fields:
        return name
    if not fields:
        raise ValueError("this kind has no field that can differ")
    *most, last = (f"'{field}'" for field in fields)
    raise PydanticKnownError(
        "literal_error", {"expected": " or ".join([", ".join(most)] * bool(most) + [last])}
    )


def _day(value: Any) -> Any:
    """Refuse what is not a day. 20261231, a number, gets the same message as other text."""
    try:
        if isinstance(value, str | int):
            date.fromisoformat(str(value) if _DATE.fullmatch(str(value)) else "")
    except ValueError:
        raise ValueError("must be a day, such as 2026-12-31") from None
    return value


class IgnoredField(Spec):
    """A field whose difference is neither drift nor corrected."""

    field: Annotated[str, AfterValidator(_known)] = Field(description="Name of the field in `spec`.")
    reason: str = Field(min_length=1, description="Why; shown with the difference.")
    until: Annotated[str, BeforeValidator(_day)] | None = Field(
        None, description="Last day of validity (UTC), as YYYY-MM-DD; default: no end."
    )


def _each_once(items: list[IgnoredField]) -> list[IgnoredField]:
    fields = [item.field for item in items]
    twice = next((field for field in fields if fields.count(field) > 1), None)
    if twice is not None:
        raise ValueError(f"`{twice}` is given twice")
    return items


Ignored = Annotated[list[IgnoredField], AfterValidator(_each_once)]


def ignores_of(items: Sequence[IgnoredField]) -> tuple[Ignore, ...]:
    """Return the validated list as core data, with the paths of its items."""
    return tuple(
        Ignore(
            item.field,
            item.reason,
            date.fromisoformat(item.until) if item.until is not None else None,
            ("lifecycle", "ignore", number),
        )
        for number, item in enumerate(items)
    )


API_VERSION = "reconciler/v1"


class _Block(Spec):
    def lifecycle(self) -> Lifecycle:
        """Return the lifecycle: written fields, and defaults for others and those that the kind lacks."""
        recorded = Lifecycle.__struct_fields__
        given: dict[str, Any] = {name: getattr(self, name) for name in recorded if hasattr(self, name)}
        if "deletion" in given:
            given["deletion"] = Deletion(given["deletion"])
        if "snapshot_before" in given:
            given["snapshot_before"] = tuple(given["snapshot_before"])
        return Lifecycle(**given)


class LifecycleBlock(_Block):
    """How the object may be treated: the fields of all kinds."""

    deletion: Literal["retain", "delete"] = Field(
        "retain", description="What happens to the object when its manifest is gone. Recorded in the state."
    )
    snapshot_before: list[Literal["extend", "delete"]] = Field(
        ["delete"], description="Operations before which a snapshot is taken."
    )
    timeout_s: int = Field(
        1800, ge=1, le=86_400, description="How long one apply waits for one step, in seconds."
    )

    restart: Literal["ask", "auto"] = Field(
        "ask",
        description="auto: restart the machine when an extend requires it (capability machine.restart).",
    )
    restart_within: SpanText | None = Field(
        None, description="A restart that has been owed for longer is reported as overdue.", examples=["14d"]
    )
    alert_at: Percent | None = Field(
        None, description="How full it may be: from there on, it is reported as filling.", examples=["80%"]
    )
    grow: Grow | None = Field(
        None,
        description="When it is extended within its range; without this, never.",
        examples=[{"at": "85%", "by": "20%", "most_gb_per_day": 100}],
    )
    ignore: Ignored = Field([], description="Fields whose differences are neither drift nor put back.")


def manifest_model(kind: ManifestKind) -> type[BaseModel]:
    """Return the model of a whole manifest of `kind`: apiVersion, kind, metadata, spec, lifecycle."""
    name = Annotated[
        str, Field(pattern=f"^{kind.name_pattern}$", description="Name of the resource, as in its address.")
    ]
    app = Annotated[
        str, Field(pattern=f"^{ManifestKind.name_pattern}$", description="The app it belongs to.")
    ]
    labels = Annotated[
        dict[str, str], Field(description="Free labels, for selectors.", examples=[{"tier": "prod"}])
    ]
    id = Annotated[
        str,
        Field(
            min_length=1,
            pattern=f"^({ID})?$",
            description="Adopt exactly this existing object.",
            examples=["vol_123"],
        ),
    ]
    metadata: dict[str, Any] = {"name": (name, ...), "labels": (labels, Field(default_factory=dict))}
    if kind.adoptable:
        metadata["id"] = (id | None, None)
    if kind.in_app:
        metadata["app"] = (app, ...)
    Metadata = create_model(f"{kind.name}Metadata", __base__=Spec, **metadata)  # noqa: N806 (a class)
    fields: dict[str, Any] = {
        "apiVersion": (Literal[API_VERSION], Field(description="Version of the manifest format.")),
        "kind": (Literal[kind.name], Field(description="What the manifest describes.")),
        "metadata": (Metadata, Field(description="What it is called, and where it belongs.")),
        "spec": (
            kind.Spec,
            Field(description="The desired state; only fields that are written are managed."),
        ),
    }
    if kind.lifecycle:
        block: dict[str, Any] = {
            name: (field.annotation, field)
            for name, field in LifecycleBlock.model_fields.items()
            if name in kind.lifecycle
        }
        about = "How the object may be treated."
        Block = create_model(f"{kind.name}Lifecycle", __base__=_Block, __doc__=about, **block)  # noqa: N806 (a class)
        fields["lifecycle"] = (  # pydantic would copy any other default
            Block | None,
            Field(None, description=about, examples=[{"deletion": "retain"}]),
        )
    return create_model(kind.name, __base__=Spec, __doc__=kind.Spec.__doc__, **fields)


def manifest_models(kinds: Mapping[str, ManifestKind]) -> dict[str, type[BaseModel]]:
    """Return the models of manifests by the names of their kinds."""
    return {name: manifest_model(kind) for name, kind in kinds.items()}
