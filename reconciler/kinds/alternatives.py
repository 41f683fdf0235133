"""Where several fields exclude each other, and an overlay has given one of them.

A JSON merge patch (RFC 7386) adds to what the manifest gives: one that should replace another field has to
take that away. The mistake is the overlay's, so what is said of it points there.
"""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from reconciler.core.diagnostics import Diagnostic, Span
from reconciler.core.model import Path

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
