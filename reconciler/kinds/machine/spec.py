"""The fields of a machine's manifest."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, WithJsonSchema
from pydantic import Field as Describe

from reconciler.kinds.manifest import Spec
from reconciler.services.machines.wire.machine import RUNNING


def _canonical_power(value: object) -> object:
    return RUNNING[0] if value in RUNNING else value


class MachineSpec(Spec):
    """The power of an existing machine: started, suspended or stopped. Nothing else of it is managed."""

    id: str = Describe(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$", description="The machine's id on the platform."
    )
    power: (
        Annotated[
            Literal["started", "suspended", "stopped"],
            BeforeValidator(_canonical_power),
            WithJsonSchema({"type": "string", "enum": ["started", "suspended", "stopped", "running"]}),
        ]
        | None
    ) = Describe(
        None,
        description="The power state to keep; `running` means `started`, and `stopped` needs capability "
        "`machine.stop`. Without `power`, reconcile does not change the machine's power. "
        # Source: platform API, 8.
        "A suspended machine still reserves its resources and is billed like a stopped one; after it "
        "resumes, its clock can lag a few seconds, and some logs may be lost.",
    )
