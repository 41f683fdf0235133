"""The declarations of every `kind:` of a manifest, whether it owns objects (`Kind`) or nothing (`Policy`).

An overlay is a JSON merge patch (RFC 7386), which adds to the manifest. Where fields exclude one another, the
patch has to remove the other one. If it does not, the mistake is the overlay's, and `point_at_patch` makes
the problem point there.
"""

from abc import ABC
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict

from reconciler.core.diagnostics import Diagnostic, Span
from reconciler.core.model import Action, Address, Effect, FieldChange, Path, Reference

R = TypeVar("R")
Locate = Callable[..., Span | None]  # gives the position of the value at a path of a manifest

GUARDRAILS = ("Budget", "Freeze", "Guardrail", "Window")  # kinds of files of their own, never of manifests
TEXT_PATTERN = r"^[^\x00-\x1f\x7f]*$"  # one line, for what goes into addresses and bodies
# The name of an object on the platform, where its API sets no form: one line that does not begin or end with
# a space. The platform itself generates such names: `orders 2026-11-22T01:41:15Z`.
FREE_NAME = r"^[^\x00-\x20\x7f]([^\x00-\x1f\x7f]*[^\x00-\x20\x7f])?$"


class Spec(BaseModel):
    """Base of all `spec` models: strict types, no unknown fields."""

    # Built when first used: a run meets few of the kinds.
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)


class Field(Struct, frozen=True):
    """One field of `Spec` that can be compared.

    `effect`: what changing it means (REFUSED: the platform cannot).
    `source`: "live", or "record" for create-only fields that the platform never returns.
    `help`: the recipe when it is refused. `equal` replaces `==` (want, live). `undo`: the action that brings
    a value back that moved from `before` to `after` (REFUSED: none does), where the effect does not tell.
    `moves`: the platform changes it by itself unless a manifest gives it.
    """

    name: str
    effect: Effect
    source: Literal["live", "record"] = "live"
    help: str = ""
    equal: Callable[[Any, Any], bool] | None = None
    undo: Callable[[FieldChange], Action] | None = None
    moves: bool = False


class ManifestKind(ABC):
    """The shape of one `kind:`. Further questions that it can answer are its roles: see `role`."""

    name: ClassVar[str]
    Spec: ClassVar[type[Spec]]
    in_app: ClassVar[bool]  # addresses carry an app, and manifests need `metadata.app`
    name_pattern: ClassVar[str] = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
    fields: ClassVar[tuple[Field, ...]] = ()
    id_path: ClassVar[Path] = ("metadata", "id")  # where a manifest names an existing object
    adoptable: ClassVar[bool] = False  # manifests may name an existing object at `metadata.id`
    lifecycle: ClassVar[tuple[str, ...]] = ()  # the fields of `lifecycle` that count for it
    # The meaning of a change of fields that are not in `fields`, or inside one of them (`size_gb.min`).
    remarks: ClassVar[Mapping[str, str]] = {}
    example: ClassVar[Mapping[str, Any]] = {}  # a `spec`, for `reconcile explain`
    variables: ClassVar[Mapping[str, str]] = {}  # what expressions in it may name, and what that is

    def role(self, role: type[R]) -> R | None:
        """Return this kind as `role`, a class such as those in `kinds.roles`; None: it does not have it."""
        return self if isinstance(self, role) else None

    def references(self, spec: Any, address: Address) -> Iterable[Reference]:
        """Return the references to resources whose values `spec` needs."""
        return ()

    def check(self, spec: Any, span: Locate) -> Iterable[Diagnostic]:
        """Yield problems that field types cannot express. `span(*path)` locates a value of the manifest.

        In a manifest with other errors, invalid fields of `spec` have their defaults: ask `model_fields_set`
        whether a field was written.
        """
        return ()


def point_at_patch(
    problem: Diagnostic, given: Sequence[Path], offered: Sequence[Path], span: Locate
) -> Diagnostic:
    """Return `problem` at the patch that caused it, if one did: not exactly one of `offered` is given.

    `given`: the paths in the manifest that are given, none or several.
    """
    places = {path: place for path in given or offered if (place := span(*path)) is not None}
    patched = [path for path in places if is_patched(path, span)]
    if not patched or problem.span is None or {places[path].file for path in places} <= {problem.span.file}:
        return problem
    others = [path for path in given if path != patched[0]]
    return replace(
        problem,
        span=places[patched[0]],
        label="",
        notes=tuple(f"`{_name(path)}` is given at {places[path].place}" for path in others if path in places),
        help=_replacing(patched[0], others) if others and len(patched) == 1 else problem.help,
    )


def is_patched(path: Path, span: Locate) -> bool:
    """Whether the field at `path` stands, or was removed, in another file than the manifest."""
    manifest, place = span(), span(*path)
    return manifest is not None and place is not None and place.file != manifest.file


def _replacing(given: Path, others: Sequence[Path]) -> str:
    """Return how the patch that gives `given` removes the manifest's values at `others`."""
    depths = [next(at for at, part in enumerate(other) if given[at] != part) for other in others]
    nulls = dict.fromkeys(f"`{other[at]}: null`" for other, at in zip(others, depths, strict=True))
    return f"a patch adds to the manifest: write {' and '.join(nulls)} beside `{given[max(depths)]}`"


def _name(path: Path) -> str:
    return ".".join(map(str, path[1:]))  # without `spec`
