"""Users of a seed, who sign in at providers."""

from reconciler.sandbox.part import Seed, said
from reconciler.sandbox.parts.provider import User, register_user, user_wire

SEED = Seed(
    "users",
    User,
    shown=lambda world, each: user_wire(each),
    titles=("id", "name", "alias", "organizations"),
    cells=lambda world, each: (
        *(each.id, each.name, each.email),
        ", ".join(f"{role} of {id}" for id, role in each.organizations.items()),
    ),
    plant=lambda world, item: register_user(world, said(item)),
)
