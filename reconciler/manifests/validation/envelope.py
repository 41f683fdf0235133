"""What surrounds every `spec`: the model of one whole manifest, per kind, built once."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, create_model

from reconciler.core.model import Deletion, Lifecycle
from reconciler.core.wire import ID
from reconciler.kinds.manifest import ManifestKind, Spec
from reconciler.manifests.validation.ignores import Ignored

API_VERSION = "reconciler/v1"


class _Block(Spec):
    def lifecycle(self) -> Lifecycle:
        """What is written, and the defaults of all that is not, or does not count for the kind."""
        given: dict[str, Any] = {
            name: getattr(self, name) for name in type(self).model_fields if name != "ignore"
        }
        if "deletion" in given:
            given["deletion"] = Deletion(given["deletion"])
        if "snapshot_before" in given:
            given["snapshot_before"] = tuple(given["snapshot_before"])
        return Lifecycle(**given)


class LifecycleBlock(_Block):
    """How the object may be treated: all that counts for any kind."""

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
    ignore: Ignored = Field([], description="Fields whose differences are neither drift nor put back.")


def manifest_model(kind: ManifestKind) -> type[BaseModel]:
    """The model of a whole manifest of `kind`: apiVersion, kind, metadata, spec, lifecycle."""
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
    metadata: dict[str, Any] = {
        "name": (name, ...),
        "labels": (labels, Field(default_factory=dict)),
    }
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
    return {name: manifest_model(kind) for name, kind in kinds.items()}
