"""What every `kind:` of a manifest declares, whether it owns objects (`Kind`) or nothing (`Policy`).

An overlay is a JSON merge patch (RFC 7386), which adds to what the manifest gives. Where several fields
exclude each other, it has to take the other one away. If it does not, the mistake is the overlay's, and
`point_at_patch` makes the problem point there.
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

TEXT_PATTERN = r"^[^\x00-\x1f\x7f]*$"  # one line, for what goes into addresses and bodies
# What the platform calls an object, where its API sets no form: one line that does not begin or end with a
# space. It generates such names itself: `orders 2026-11-22T01:41:15Z`.
FREE_NAME = r"^[^\x00-\x20\x7f]([^\x00-\x1f\x7f]*[^\x00-\x20\x7f])?$"


class Spec(BaseModel):
    """Base of all `spec` models: strict types, no unknown fields."""

    # Built when first used: a run meets few of the kinds.
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)


class Field(Struct, frozen=True):
    """One field of `Spec` that can be compared.

    `effect`: what changing it means (REFUSED: the platform cannot).
    `source`: "live", or "record" for create-only fields that the platform never returns.
    `help`: the recipe when it is refused. `equal` replaces `==` (want, live). `undo`: what brings a value
    that moved from `before` to `after` back (REFUSED: nothing does), where the effect does not say it.
    `moves`: the platform changes it by itself where no manifest says what it must be.
    """

    name: str
    effect: Effect
    source: Literal["live", "record"] = "live"
    help: str = ""
    equal: Callable[[Any, Any], bool] | None = None
    undo: Callable[[FieldChange], Action] | None = None
    moves: bool = False


class ManifestKind(ABC):
    """The shape of one `kind:`, and what else it can be asked: see `role`."""

    name: ClassVar[str]
    Spec: ClassVar[type[Spec]]
    in_app: ClassVar[bool]  # addresses carry an app, and manifests need `metadata.app`
    name_pattern: ClassVar[str] = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
    fields: ClassVar[tuple[Field, ...]] = ()
    id_path: ClassVar[Path] = ("metadata", "id")  # where a manifest names an existing object
    adoptable: ClassVar[bool] = False  # manifests may name an existing object at `metadata.id`
    lifecycle: ClassVar[tuple[str, ...]] = ()  # the fields of `lifecycle` that count for it
    # What changing a field of `Spec` means that is not in `fields`, or one below it (`size_gb.min`).
    remarks: ClassVar[Mapping[str, str]] = {}
    example: ClassVar[Mapping[str, Any]] = {}  # a `spec`, for `reconcile explain`

    def role(self, role: type[R]) -> R | None:
        """This kind as `role`, a class such as those in `kinds.roles`; None: it does not have it."""
        return self if isinstance(self, role) else None

    def references(self, spec: Any, address: Address) -> Iterable[Reference]:
        """The addresses whose values `spec` needs."""
        return ()

    def check(self, spec: Any, span: Callable[..., Span | None]) -> Iterable[Diagnostic]:
        """Problems that field types cannot express. `span(*path)` locates a value of the manifest.

        `spec` may lack invalid fields, which are then their defaults; ask `model_fields_set` whether
        something was written.
        """
        return ()


Locate = Callable[..., Span | None]  # `Kind.check` is called with one


def point_at_patch(
    problem: Diagnostic, given: Sequence[Path], offered: Sequence[Path], span: Locate
) -> Diagnostic:
    """`problem`, that not exactly one of `offered` is given, at the patch that made it so, if one did.

    `given`: those that are, none or several; paths in the manifest.
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
    """How the patch that gives `given` takes away what the manifest gives at `others`."""
    depths = [next(at for at, part in enumerate(other) if given[at] != part) for other in others]
    nulls = dict.fromkeys(f"`{other[at]}: null`" for other, at in zip(others, depths, strict=True))
    return f"a patch adds to the manifest: write {' and '.join(nulls)} beside `{given[max(depths)]}`"


def _name(path: Path) -> str:
    return ".".join(map(str, path[1:]))  # without `spec`
