"""Random plans and rules, and a straightforward judge in Python that knows nothing of expressions.

A rule is a tree of conditions. It is written as CEL for the program, and evaluated here by recursion, with
three values: a condition on what is not known has none, as CEL says.
"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from reconciler.core.context import Context
from reconciler.core.model import (
    Action,
    Address,
    Change,
    Effect,
    FieldChange,
    Impact,
    Lifecycle,
    Resource,
    StateRecord,
)
from reconciler.core.steps import Call, Plan, Step, StepEffect
from reconciler.guardrails.limit import Limit
from reconciler.guardrails.rules import judge_rules
from reconciler.kinds import find_kinds

NOW = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
CONTEXT = Context("prod", None, "memory:", None, None, None, "0", NOW)
UNKNOWN = object()
_SPECS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "Volume": [
        {"size_gb": 10},
        {"size_gb": 40, "encrypted": False},
        {"size_gb": {"min": 5, "max": 50}, "snapshot_retention": 7},
        {"region": "ams"},
    ],
    "PostgresCluster": [{"plan": "basic", "region": "ams"}, {"disk_size_gb": 20, "postgis_enabled": True}],
    "Machine": [{"id": "m1"}, {"id": "m2", "power": "stopped"}],
}
_ACTIONS = (Action.CREATE, Action.EXTEND, Action.UPDATE, Action.DELETE, Action.SUSPEND, Action.REFUSED)


@dataclass(frozen=True)
class World:
    plan: Plan
    resources: Mapping[Address, Resource]
    records: Mapping[Address, StateRecord]


def random_world(chance: random.Random) -> World:
    resources, records, changes, steps = {}, {}, [], []
    for number in range(chance.randrange(3, 9)):
        kind = chance.choice(sorted(_SPECS))
        address = Address(kind, f"n{number}", None if kind == "PostgresCluster" else chance.choice("ab"))
        action = chance.choice(_ACTIONS)
        if action is not Action.DELETE:
            spec = find_kinds()[kind].Spec.model_validate(chance.choice(_SPECS[kind]))
            labels = {"tier": chance.choice(["prod", "lab"])} if chance.random() < 0.5 else {}
            resources[address] = Resource(address, spec, Lifecycle(), "a.yaml", {}, labels)
        if action is not Action.CREATE and chance.random() < 0.8:
            applied = {"size_gb": chance.randrange(1, 40)} if kind == "Volume" else {"disk_size_gb": 10}
            records[address] = StateRecord(address, "id", "a", applied, Lifecycle(), NOW)
        fields: tuple[FieldChange, ...] = ()
        if action is Action.EXTEND:
            fields = (FieldChange("size_gb", 10, chance.randrange(11, 60), Effect.GROW),)
        changes.append(Change(address, action, fields, chance.choice(list(Impact))))
        body = {"size_gb": chance.randrange(60)} if chance.random() < 0.5 else None
        call = Call(chance.choice(["POST", "PUT", "DELETE"]), f"/v1/{number}", body)
        steps.append(Step(f"{address}#x", address, call, effect=StepEffect()))
    plan = Plan("p", CONTEXT, tuple(changes), tuple(steps), (), (), (), ())
    return World(plan, resources, records)


# --- what a rule may look at, told in Python ---


def _spec(world: World, change: Change, name: str) -> Any:
    for field in change.fields:
        if field.path == name:
            return field.after
    resource = world.resources.get(change.address)
    if resource is None or name not in type(resource.spec).model_fields:
        return UNKNOWN
    value = getattr(resource.spec, name)
    return value.min if hasattr(value, "min") else value


def _before(world: World, change: Change, name: str) -> Any:
    for field in change.fields:
        if field.path == name:
            return field.before
    record = world.records.get(change.address)
    return UNKNOWN if record is None else record.applied.get(name, UNKNOWN)


@dataclass(frozen=True)
class Look:
    """A comparison of a variable with a constant, and how Python finds the variable."""

    name: str
    sign: str
    constant: Any

    def cel(self) -> str:
        return f"{self.name} {self.sign} {json.dumps(self.constant)}"

    def value(self, world: World, change: Change) -> Any:
        found = self._value(world, change)
        if found is UNKNOWN:
            return UNKNOWN
        if self.sign in ("==", "!="):
            return (found == self.constant) is (self.sign == "==")
        if found is None:
            return UNKNOWN
        return {"<": found < self.constant, ">=": found >= self.constant}[self.sign]

    def _value(self, world: World, change: Change) -> Any:
        what, _, name = self.name.removeprefix("change.").rpartition(".")
        resource = world.resources.get(change.address)
        if what == "after":
            return _spec(world, change, name)
        if what == "before":
            return _before(world, change, name)
        if what == "plan.summary":
            return sum(each.action.value == name for each in world.plan.changes)
        simple = {
            "app": change.address.app or "",
            "action": change.action.value,
            "impact": change.impact.value,
            "address": str(change.address),
            "environment": "prod",
            "labels": UNKNOWN if resource is None else resource.labels,
        }
        if self.name == "change.labels.tier":
            return UNKNOWN if resource is None else resource.labels.get("tier", UNKNOWN)
        return simple[name]


@dataclass(frozen=True)
class Calls:
    """Whether every call of the change has this method."""

    method: str

    def cel(self) -> str:
        return f'change.steps.all(call, call.method == "{self.method}")'

    def value(self, world: World, change: Change) -> Any:
        own = [step for step in world.plan.steps if step.address == change.address]
        return all(step.call.method == self.method for step in own)


@dataclass(frozen=True)
class Both:
    """`&&` or `||`: one side may decide where the other has no value."""

    sign: str
    left: Any
    right: Any

    def cel(self) -> str:
        return f"({self.left.cel()}) {self.sign} ({self.right.cel()})"

    def value(self, world: World, change: Change) -> Any:
        sides = [side.value(world, change) for side in (self.left, self.right)]
        decides = self.sign == "||"
        if decides in [side for side in sides if side is not UNKNOWN]:
            return decides
        return UNKNOWN if UNKNOWN in sides else not decides


@dataclass(frozen=True)
class Not:
    inner: Any

    def cel(self) -> str:
        return f"!({self.inner.cel()})"

    def value(self, world: World, change: Change) -> Any:
        found = self.inner.value(world, change)
        return UNKNOWN if found is UNKNOWN else not found


def random_condition(chance: random.Random, kinds: Sequence[str], depth: int = 2) -> Any:
    if depth and chance.random() < 0.5:
        if chance.random() < 0.3:
            return Not(random_condition(chance, kinds, depth - 1))
        left, right = (random_condition(chance, kinds, depth - 1) for _ in range(2))
        return Both(chance.choice(["&&", "||"]), left, right)
    texts: list[tuple[str, Sequence[Any]]] = [
        ("change.app", ["a", "b", ""]),
        ("change.action", ["create", "delete", "update"]),
        ("change.impact", ["online", "restart"]),
        ("change.labels.tier", ["prod", "lab"]),
        ("environment", ["prod", "base"]),
    ]
    numbers: list[tuple[str, Sequence[Any]]] = [
        (f"plan.summary.{name}", [1, 2]) for name in ("create", "delete")
    ]
    if [*kinds] == ["Volume"]:
        numbers += [("change.after.size_gb", [10, 30]), ("change.before.size_gb", [10, 30])]
        numbers += [("change.after.snapshot_retention", [5, 7])]
    if [*kinds] == ["PostgresCluster"]:
        numbers += [("change.after.disk_size_gb", [10, 20])]
        texts += [("change.after.plan", ["basic", "scale"])]
    if chance.random() < 0.1:
        return Calls(chance.choice(["POST", "PUT"]))
    name, constants = chance.choice([*texts, *numbers])
    signs = ["==", "!="] if isinstance(constants[0], str) else ["<", ">=", "==", "!="]
    return Look(name, chance.choice(signs), chance.choice(constants))


@dataclass(frozen=True)
class Rule:
    spec: Mapping[str, Any]
    when: Any
    require: Any

    def limit(self, name: str) -> Limit:
        return Limit("Guardrail", name, json.dumps(self.spec))


def random_rule(chance: random.Random) -> Rule:
    kinds = chance.choice([[], ["Volume"], ["PostgresCluster"], ["Volume", "Machine"]])
    actions = chance.sample(["create", "extend", "update", "delete", "suspend"], chance.randrange(3))
    when = random_condition(chance, kinds, 1) if chance.random() < 0.4 else None
    require = random_condition(chance, kinds)
    spec = {"kinds": kinds, "actions": actions, "require": require.cel(), "message": "no"}
    spec |= {"level": chance.choice(["mandatory", "overridable", "advisory"])}
    spec |= {"when": when.cel()} if when is not None else {}
    return Rule(spec, when, require)


def expected(world: World, rule: Rule) -> set[tuple[str, str]]:
    """The verdicts of the straightforward judge about single changes."""
    found = set()
    for change in world.plan.changes:
        kinds, actions = rule.spec["kinds"], rule.spec["actions"]
        if kinds and change.address.kind not in kinds:
            continue
        if actions and change.action.value not in actions:
            continue
        if not actions and not change.action.changes_something:
            continue
        applies = True if rule.when is None else rule.when.value(world, change)
        met = UNKNOWN if applies is UNKNOWN else applies is False or rule.require.value(world, change)
        if met is not True:
            found.add((str(change.address), "undecided" if met is UNKNOWN else "false"))
    return found


def differences(seed: int) -> list[str]:
    """What the two judges say differently about one random world and some random rules."""
    chance = random.Random(seed)
    world, rules = random_world(chance), [random_rule(chance) for _ in range(3)]
    wrong = []
    for number, rule in enumerate(rules):
        judged = judge_rules([rule.limit(f"r{number}")], world.plan, world.resources, world.records)
        found = {(str(finding.address), str(finding.verdict)) for finding in judged.findings}
        wanted = expected(world, rule)
        if "change." not in f"{rule.spec['require']}{rule.spec.get('when', '')}":  # told once
            found, wanted = ({("plan", verdict) for _, verdict in each} for each in (found, wanted))
        if found != wanted:
            wrong.append(f"seed {seed}: {rule.spec}: found {found}, wanted {wanted}")
    return wrong
