"""Resources of a seed, which providers have."""

from reconciler.sandbox.part import Seed, said
from reconciler.sandbox.parts.provider import Resource, register_resource, resource_wire

SEED = Seed(
    "resources",
    Resource,
    shown=lambda world, each: resource_wire(each),
    titles=("provider", "id", "status", "name", "plan"),
    cells=lambda world, each: (each.provider, each.resource_id, each.status, each.name, each.plan),
    plant=lambda world, item: register_resource(world, said(item)),
    after=("providers",),
)
