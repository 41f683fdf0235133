"""Apps of a seed."""

from reconciler.sandbox.part import Seed
from reconciler.sandbox.parts.app import register, world_wire
from reconciler.sandbox.seed_form import Count, Item, Name, Text
from reconciler.sandbox.world import App, World


class AppItem(Item):
    name: Name
    org_slug: Name | None = None
    primary_region: Text | None = None
    secrets_version: Count | None = None

    def key(self) -> tuple[str, ...]:
        return (self.name,)


def _plant(world: World, item: AppItem) -> None:
    app = register(world, item.name, item.org_slug, item.primary_region)
    app.secrets_version = item.secrets_version or 0
    world.put(app)


SEED = Seed(
    "apps",
    App,
    shown=lambda world, app: world_wire(app),
    titles=("name", "organization", "region"),
    cells=lambda world, app: (app.id, app.org_slug, app.primary_region),
    plant=_plant,
    form=AppItem,
)
