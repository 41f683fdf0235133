"""Secrets of a seed: with a value, which is not kept, or with its fingerprint."""

from typing import Annotated

from pydantic import Field

from reconciler.sandbox.clock import rfc3339
from reconciler.sandbox.fingerprint import FORM, fingerprint
from reconciler.sandbox.part import Seed
from reconciler.sandbox.parts.app import register
from reconciler.sandbox.parts.secret import Secret, digest, wire
from reconciler.sandbox.seed_form import Date, Item, Name, moment_or_now
from reconciler.sandbox.world import World


class SecretItem(Item):
    app: Name
    name: Annotated[str, Field(min_length=1)]
    value: str | None = Field(None, repr=False)
    fingerprint: Annotated[str, Field(pattern=FORM)] = ""
    digest: str | None = None
    created_at: Date | None = None
    updated_at: Date | None = None

    def key(self) -> tuple[str, ...]:
        return (self.app, self.name)


def _plant(world: World, item: SecretItem) -> None:
    register(world, item.app)
    kept = item.fingerprint if item.value is None else fingerprint(item.value, world.fingerprint_key)
    world.put(
        Secret(
            f"{item.app}/{item.name}",
            item.app,
            item.name,
            kept,
            digest(kept) if item.digest is None else item.digest,
            moment_or_now(world, item.created_at),
            moment_or_now(world, item.updated_at),
        )
    )


SEED = Seed(
    "secrets",
    Secret,
    shown=lambda world, each: wire(each),
    titles=("app", "name", "digest", "updated at"),
    cells=lambda world, each: (each.app, each.name, each.digest, rfc3339(each.updated_at)),
    plant=_plant,
    form=SecretItem,
    after=("apps",),
)
