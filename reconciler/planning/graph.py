"""Resources, or the steps of a plan, and what comes before what. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from graphlib import TopologicalSorter
from typing import TypeVar

from msgspec import Struct

from reconciler.core.model import Address, Resource
from reconciler.core.steps import Plan, Step

Key = TypeVar("Key", Address, str)


class Node(Struct, frozen=True):
    """`key` is an address or a step's id. `detail`: a line about it; `place`: where it is written.

    `level`: how many others, one after another, come before it. `count`: how many objects it stands for.
    """

    key: str
    kind: str
    name: str
    group: str  # its app; "" for what is in none
    level: int
    after: tuple[str, ...] = ()
    count: int = 1
    detail: str = ""
    place: str = ""

    @property
    def label(self) -> str:
        """The key, with the number of objects where there are several."""
        return f"{self.key} x{self.count}" if self.count > 1 else self.key


class Graph(Struct, frozen=True):
    """Nodes in the order of the manifests or of the plan. `what`: one of them; `by`: one arrow, in a word."""

    what: str
    by: str
    nodes: tuple[Node, ...]

    @property
    def edges(self) -> int:
        return sum(len(node.after) for node in self.nodes)

    @property
    def levels(self) -> list[list[Node]]:
        found: list[list[Node]] = [[] for _ in range(max((node.level + 1 for node in self.nodes), default=0))]
        for node in self.nodes:
            found[node.level].append(node)
        return found


def resource_graph(resources: Sequence[Resource], policies: Sequence[Resource]) -> Graph:
    """One node a manifest. Of `policies`, which no plan holds, only those that a resource refers to."""
    referred = {to.address for resource in resources for to in resource.references}
    shown = [*(policy for policy in policies if policy.address in referred), *resources]
    counts: dict[Address, int] = {}
    for resource in shown:
        whole = resource.address._replace(ordinal=0)
        counts[whole] = counts.get(whole, 0) + 1
    after = {
        resource.address: tuple(
            dict.fromkeys(to.address for to in resource.references if to.address in counts)
        )
        for resource in shown
        if not resource.address.ordinal
    }
    levels = _levels(after)
    nodes = []
    for resource in shown:
        address = resource.address
        if address.ordinal:
            continue
        span = resource.span("metadata", "name")
        nodes.append(
            Node(
                str(address),
                address.kind,
                address.name,
                address.app or "",
                levels[address],
                tuple(map(str, after[address])),
                counts[address],
                place=f"{span.file}:{span.line}" if span else resource.file,
            )
        )
    return Graph("resource", "reference", tuple(nodes))


def plan_graph(plan: Plan) -> Graph:
    """One node a step, after the steps that must be done before."""
    after = {step.id: step.after for step in plan.steps}
    levels = _levels(after)
    return Graph(
        "step",
        "wait",
        tuple(
            Node(
                step.id,
                step.address.kind,
                f"{step.address.name}{f'[{step.address.ordinal}]' if step.address.ordinal else ''}"
                f"#{step.id.rpartition('#')[2]}",
                step.address.app or "",
                levels[step.id],
                step.after,
                detail=_call(step),
            )
            for step in plan.steps
        ),
    )


def _call(step: Step) -> str:
    """What is sent, and what is waited for. Paths hold no secrets."""
    sent = f"{step.call.method} {step.call.path}" if step.mutates else ""
    if step.wait is None:
        return sent
    until = step.wait.until
    values = (
        f"at least {until.at_least}" if until.at_least is not None else " or ".join(map(str, until.any_of))
    )
    waits = f"wait until {until.field} is {values}"
    return f"{sent}, {waits}" if sent else waits


def _levels(after: Mapping[Key, Iterable[Key]]) -> dict[Key, int]:
    levels: dict[Key, int] = {}
    for key in TopologicalSorter(after).static_order():
        levels[key] = max((levels[before] + 1 for before in after.get(key, ())), default=0)
    return levels
