"""Gives resources the values of the policies (`GivesValues`) that select them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from reconciler.core.diagnostics import Diagnostic, Span, error, warning
from reconciler.core.model import Path, Resource
from reconciler.core.words import did_you_mean
from reconciler.kinds.manifest import ManifestKind
from reconciler.policies.base import GivesValues
from reconciler.policies.giving import Giving


class Defaults:
    """The policies of one load: the values that they gave, and the conflicts between two of them."""

    def __init__(self, policies: Sequence[Resource], kinds: Mapping[str, ManifestKind]) -> None:
        self._policies = [
            policy for policy in policies if kinds[policy.address.kind].role(GivesValues) is not None
        ]
        self._giving = Giving(self._policies, kinds)
        self._used = [False] * len(self._policies)
        self._apps: set[str] = set()
        self._conflicts: dict[tuple[int, int, str], Diagnostic] = {}

    def apply(self, resource: Resource) -> Resource:
        """Return `resource` with the values that its own manifest does not give.

        Values for fields of its spec are set there, as if written, with an inherited position; others become
        objectives.
        """
        if resource.address.app is not None:
            self._apps.add(resource.address.app)
        given: dict[str, tuple[Any, int]] = {}
        for index, values in self._giving.given(resource):
            for name, value in values.items():
                self._used[index] = True
                if name in resource.spec.model_fields_set or name in resource.objectives:
                    continue
                if name in given and given[name][0] != value:
                    self._disagree(given[name][1], index, name, resource)
                else:
                    given.setdefault(name, (value, index))
        if not given:
            return resource
        fields = type(resource.spec).model_fields
        inherited: dict[Path, Span] = {}
        update: dict[str, Any] = {}
        objectives = dict(resource.objectives)
        for name, (value, index) in given.items():
            path: Path = ("objectives", name)
            if name in fields:
                update[name] = value
                path = ("spec", fields[name].alias or name)
            else:
                objectives[name] = value
            span = self._span(index, name)
            if span is not None:
                inherited[path] = span
        spec = resource.spec.model_copy(update=update)
        return replace(
            resource, spec=spec, objectives=objectives, inherited={**resource.inherited, **inherited}
        )

    def conflicts(self) -> Iterator[Diagnostic]:
        """Yield one error for every pair of policies and field."""
        yield from self._conflicts.values()

    def unused(self) -> Iterator[Diagnostic]:
        """Yield one warning for every policy that matched nothing."""
        for policy, used in zip(self._policies, self._used, strict=True):
            if not used:
                app: Any = getattr(getattr(policy.spec, "selector", None), "app", None)
                misspelt = app is not None and app not in self._apps
                yield warning(
                    "unused-policy",
                    f"{policy.address} matches no resource",
                    policy.span("spec", "selector", *(("app",) if misspelt else ())),
                    help=(did_you_mean(app, sorted(self._apps)) if misspelt else "")
                    or "check the selector's app and labels",
                )

    def _disagree(self, first: int, second: int, name: str, resource: Resource) -> None:
        if (first, second, name) in self._conflicts:
            return
        policy, other = self._policies[first], self._policies[second]
        span = self._span(first, name)
        at = f" at {span.place}" if span else ""
        self._conflicts[first, second, name] = error(
            "policy-conflict",
            f"{policy.address} and {other.address} give {resource.address} different values of `{name}`",
            self._span(second, name),
            notes=(f"the other one is {policy.address}{at}",),
            help=f"narrow one selector, or write `{name}` in the manifest of the resource",
        )

    def _span(self, index: int, name: str) -> Span | None:
        return self._policies[index].span("spec", name)
