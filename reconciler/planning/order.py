"""In which order steps run: a resource's own steps in a row, after those of what it refers to."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from reconciler.model import Address
from reconciler.steps import Step


def order_steps(
    steps: Sequence[Sequence[Step]], references: Mapping[Address, Iterable[Address]]
) -> tuple[Step, ...]:
    """All steps with `after` filled in. `steps` holds one sequence per resource.

    Creates that a list could not tell apart run one after another: a lost reply must leave
    one candidate, not several. Source: DESIGN, section 5.
    """
    last = {group[-1].address: group[-1].id for group in steps if group}
    previous_create: dict[tuple[str, str], str] = {}
    ordered: list[Step] = []
    for group in steps:
        before: tuple[str, ...] = ()
        if group:
            before = tuple(last[to] for to in references.get(group[0].address, ()) if to in last)
        for step in group:
            after = (*step.after, *before)
            if step.find is not None and step.find.match:
                key = (str(step.find.read.path), str(step.find.match.get("name")))
                if key in previous_create:
                    after = (*after, previous_create[key])
                previous_create[key] = step.id
            ordered.append(replace(step, after=tuple(dict.fromkeys(after))))
            before = (step.id,)
    return tuple(ordered)
