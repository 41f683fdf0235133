"""Moved: the address that a manifest had before, and the one that it has now. It owns nothing.

The platform renames no object. Only the record moves: the object of `from` belongs to `to` from then on.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from pydantic import Field as Describe

from reconciler.core.diagnostics import Diagnostic, error
from reconciler.core.model import Address, Path, Relocation
from reconciler.kinds.manifest import Locate, Spec
from reconciler.kinds.roles import NamesResources
from reconciler.policies.base import Policy


class MovedSpec(Spec):
    """A resource has another address now: the record of its object follows, and no call is sent."""

    from_: str = Describe(
        alias="from", description="The address that the resource had, such as Volume/shop/data."
    )
    to: str = Describe(
        description="The address that its manifest has now; all members of a `count` move with it."
    )

    @property
    def source(self) -> Address:
        return Address.parse(self.from_)

    @property
    def target(self) -> Address:
        return Address.parse(self.to)


class Moved(NamesResources, Policy):
    """Moved entries: checked while loading, carried out by `moves`."""

    name = "Moved"
    Spec = MovedSpec
    in_app = False
    example: ClassVar = {"from": "Volume/shop/data", "to": "Volume/shop/orders"}

    def check(self, spec: MovedSpec, span: Locate) -> Iterable[Diagnostic]:
        parsed = {}
        for name, text in (("from", spec.from_), ("to", spec.to)):
            try:
                parsed[name] = Address.parse(text)
            except ValueError as problem:
                message = f"`{name}` is not valid: {problem}"
                yield error("invalid-value", message, span("spec", name), help=_in_other_case(text))
        if len(parsed) < 2:
            return
        source, target = parsed["from"], parsed["to"]
        if source == target:
            yield error("move-nowhere", f"{source} moves to itself", span("spec", "to"))
        elif (source.kind, source.app) != (target.kind, target.app):
            yield error(
                "move-elsewhere",
                f"{source} cannot become {target}: an object cannot change its kind or its app",
                span("spec", "to"),
                help="only the name and the [index] of an address can change",
            )

    def follow(self, spec: MovedSpec, moved: Relocation) -> Iterable[tuple[Path, Any]]:
        """Both addresses, where this environment has the resource in another app."""
        target = moved.addresses.get(spec.target._replace(ordinal=0))
        if target is not None and target.app != spec.target.app:
            for name, address in (("from", spec.source), ("to", spec.target)):
                yield ("spec", name), str(address._replace(app=target.app))


def _in_other_case(text: str) -> str:
    """A hint for `volume/shop/data`, or ""."""
    from reconciler.kinds import find_kinds

    kind, _, rest = text.partition("/")
    meant = {name.lower(): name for name in find_kinds()}.get(kind.lower())
    return f"did you mean `{meant}/{rest}`?" if meant is not None and meant != kind and rest else ""


def next_address(address: Address, moves: Mapping[Address, Address]) -> Address | None:
    """Return where an entry moves `address` to; None: there is no entry. `moves`: `to` by `from`.

    An entry without an [index] on either side is about all of `count`, any other about one object.
    """
    target = moves.get(address)
    if target is not None:
        return target
    whole = moves.get(address._replace(ordinal=0))
    return whole._replace(ordinal=address.ordinal) if whole is not None and not whole.ordinal else None


def later_addresses(address: Address, moves: Mapping[Address, Address]) -> Iterator[Address]:
    """Where `address` leads, entry by entry. Entries in a circle end after one round."""
    following = next_address(address, moves)
    for _ in moves:
        if following is None:
            return
        yield following
        following = next_address(following, moves)


KIND = Moved()
