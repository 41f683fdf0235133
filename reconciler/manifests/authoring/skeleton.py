"""A manifest to fill in, made from a kind's page: the required fields, and all others commented out."""

import re
from collections.abc import Iterable, Iterator, Mapping
from textwrap import wrap
from typing import Any

from pydantic import ValidationError

from reconciler.core.diagnostics import has_errors
from reconciler.core.model import Path
from reconciler.kinds.manifest import ManifestKind
from reconciler.manifests.authoring.reference import FieldPage, kind_page
from reconciler.manifests.validation.envelope import API_VERSION, manifest_model
from reconciler.manifests.validation.problems import locate
from reconciler.manifests.writing.write import scalar

_COLUMNS = 100
_ITEM = "[]"
# Placeholders for texts that are not just any text.
_SPECIAL_TEXTS = ("https://HOST", "/PATH", "2026-01-31T12:00:00Z", "2026-12-31")


def skeleton(kind: ManifestKind, *, name: str, app: str) -> str:
    """Return the text of one manifest, valid as far as it does not refer to others.

    Required fields have placeholders, such as REGION; `app` stands wherever the kind takes one. Comments
    give the description, choices, bounds and default of every field.
    """
    return _Skeleton(kind, name, app).text()


class _Skeleton:
    """One manifest in the making. Paths are those of pages: `spec.size_gb`, `lifecycle.ignore[].field`."""

    def __init__(self, kind: ManifestKind, name: str, app: str) -> None:
        self._kind = kind
        self._model = manifest_model(kind)
        blocks = ("metadata", "spec", "lifecycle")
        self._blocks = [page for page in kind_page(kind).fields if page.path in blocks]
        self._given: dict[str, Any] = {"metadata.name": name, "metadata.app": app}
        if kind.fields:
            self._given["lifecycle.ignore[].field"] = kind.fields[0].name
        required = _required(self._blocks)
        self._fill_in_addresses(required, app)
        self._active = self._needed(required)

    def text(self) -> str:
        """Return the lines of the manifest."""
        lines = [f"apiVersion: {API_VERSION}", f"kind: {self._kind.name}"]
        for block in self._blocks:
            lines += self._field(block, 0)
        return "\n".join(lines) + "\n"

    # --- what must stand there ---

    def _fill_in_addresses(self, required: set[str], app: str) -> None:
        """Give required fields an address, such as Volume/APP/TO, where the kind's rules ask for one."""
        for path in sorted(path for path in required if path.startswith("spec.")):
            before = self._complaints(required)
            self._given[path] = f"Volume/{app}/{_key(path).upper()}"
            if self._complaints(required) >= before:
                del self._given[path]

    def _needed(self, required: set[str]) -> set[str]:
        """Return the fields without which the manifest is refused, also by the kind's rules across fields."""
        active = required
        pages = [page for page in _mappings(self._blocks) if page.path.startswith("spec")]
        optional = [page.path for page in pages if page.path not in active]
        while left := self._complaints(active):
            tried = (active | set(_with_parents(path)) for path in optional)
            better = next((fields for fields in tried if self._complaints(fields) < left), None)
            if better is None:
                break
            active = better
        for page in _mappings(self._blocks):
            fields = _inside(page)
            if page.path in active and fields and not any(field.path in active for field in fields):
                active = active | {_first_to_fill_in(page, fields)}
        return active

    def _complaints(self, active: set[str]) -> int:
        """Count the problems of a manifest with just these fields."""
        value = {"apiVersion": API_VERSION, "kind": self._kind.name, **self._values(self._blocks, active)}
        try:
            manifest: Any = self._model.model_validate(value)
        except ValidationError as failure:
            return 1000 * failure.error_count()
        return sum(has_errors([problem]) for problem in self._kind.check(manifest.spec, lambda *path: None))

    def _values(self, pages: Iterable[FieldPage], active: set[str]) -> dict[str, Any]:
        return {
            _key(page.path): self._values(_inside(page), active) if _inside(page) else self._placeholder(page)
            for page in pages
            if page.path in active
        }

    def _placeholder(self, page: FieldPage) -> Any:
        """Return a value that the field takes: the one given, its default, or something to be replaced."""
        if page.path in self._given:
            return self._given[page.path]
        if page.default is not None:
            return page.default
        upper = _key(page.path).upper()
        hyphened = upper.replace("_", "-")
        own = self._given["metadata.app"] if upper == "APP" else upper
        number = _bounds(page).get("minimum", 1)
        texts = [*_choices(page)[:1], own, hyphened, *_SPECIAL_TEXTS]
        candidates: tuple[Any, ...] = (number, True, *texts, [hyphened], [upper], {})
        return next((value for value in candidates if self._fits(_parts(page.path), value)), upper)

    def _fits(self, path: Path, value: Any) -> bool:
        """Whether the model takes `value` at `path`, whatever it says of other fields."""
        whole = value
        for part in reversed(path):
            whole = [whole] if isinstance(part, int) else {part: whole}
        try:
            self._model.model_validate(whole)
        except ValidationError as failure:
            problems = failure.errors(include_url=False)
            return all(locate(problem, whole)[0][: len(path)] != path for problem in problems)
        return True

    # --- text ---

    def _field(self, page: FieldPage, depth: int) -> Iterator[str]:
        """Yield the lines of one field, which is commented out unless it is active."""
        margin = "  " * depth
        lines = []
        if depth or page.path not in self._active:
            lines = [f"# {line}" for line in _wrapped(_about(page), _COLUMNS - len(margin) - 2)]
        if page.path not in self._active:
            lines += [f"# {line}" for line in self._commented(page, depth + 1)]
            yield from (f"{margin}{line}" for line in lines)
            return
        fields = _inside(page)
        key = _key(page.path)
        lines.append(f"{key}:" if fields else f"{key}: {_inline(self._placeholder(page))}")
        yield from (f"{margin}{line}" for line in lines)
        for field in fields:
            yield from self._field(field, depth + 1)

    def _commented(self, page: FieldPage, depth: int) -> Iterator[str]:
        """Yield an optional field with all that is in it, as it stands once its comment signs are gone."""
        items = [field for field in page.fields if field.path.startswith(page.path + _ITEM)]
        fields = items or _inside(page)
        if not fields:
            yield f"{_key(page.path)}: {_inline(self._placeholder(page))}"
            return
        yield f"{_key(page.path)}:"
        lead, margin = "- " if items else "", ""
        for field in fields:
            for line in _wrapped(_about(field), _COLUMNS - 2 * depth):
                yield f"  {margin}# {line}"
            for line in self._commented(field, depth + 1):
                yield f"  {lead}{line}"
                lead = margin = " " * len(lead)


# --- pages ---


def _key(path: str) -> str:
    return path.rpartition(".")[2]


def _parts(path: str) -> Path:
    """Keys and list indices: `lifecycle.ignore[].field` is ("lifecycle", "ignore", 0, "field")."""
    return tuple(0 if part == _ITEM else part for part in path.replace(_ITEM, f".{_ITEM}").split("."))


def _with_parents(path: str) -> Iterator[str]:
    parts = path.split(".")
    yield from (".".join(parts[:size]) for size in range(1, len(parts) + 1))


def _inside(page: FieldPage) -> list[FieldPage]:
    """Return the fields of a mapping, `app` right behind `name`; none where the value fits on one line."""
    if not all("properties" in form for form in page.forms):
        return []
    return sorted(page.fields, key=lambda field: not field.required and page.path == "metadata")


def _mappings(pages: Iterable[FieldPage]) -> Iterator[FieldPage]:
    """Yield every field in mappings at any depth, outer ones first."""
    for page in pages:
        yield page
        yield from _mappings(_inside(page))


def _required(pages: Iterable[FieldPage]) -> set[str]:
    """Return the paths of required fields in required mappings."""
    here = [page for page in pages if page.required]
    return {page.path for page in here}.union(*(_required(_inside(page)) for page in here))


def _first_to_fill_in(page: FieldPage, fields: Iterable[FieldPage]) -> str:
    """Return one field of a mapping that would otherwise be `{}`, which no comment can be uncommented in."""
    others = [field for field in fields if _key(field.path) != "name"]
    amounts = [field for field in others if _bounds(field) and page.path == "spec"]
    return next(iter(amounts or others)).path


def _about(page: FieldPage) -> str:
    """Return what a person must know to fill in the field."""
    said = [page.description]
    if choices := _choices(page):
        said.append(f"One of {', '.join(choices)}.")
    bounds = _bounds(page)
    if len(bounds) == 2:
        said.append(f"{bounds['minimum']} to {bounds['maximum']}.")
    else:
        words = {"minimum": "At least", "maximum": "At most"}
        said += [f"{words[name]} {bound}." for name, bound in bounds.items()]
    if page.default not in (None, {}, []) and "default" not in page.description.lower():
        said.append(f"Default {_inline(page.default)}.")
    return " ".join(filter(None, said))


def _choices(page: FieldPage) -> list[str]:
    forms: list[Mapping[str, Any]] = [form.get("items", form) for form in page.forms]
    return [str(choice) for form in forms for choice in form.get("enum", ())]


def _bounds(page: FieldPage) -> dict[str, int]:
    """Return the smallest (`minimum`) and the largest number allowed, where there are such."""
    return {
        name: form[name]
        for form in page.forms
        for name in ("minimum", "maximum")
        if form.get(name) is not None
    }


def _wrapped(text: str, width: int) -> list[str]:
    """Return the lines of a comment, none of which begins like a field."""
    glued = re.sub(r" (?=[A-Za-z_]+: )", "\N{NO-BREAK SPACE}", text)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in wrap(glued, width)]


def _inline(value: Any) -> str:
    """Return `value` on one line of YAML."""
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    return "{}" if value == {} else scalar(value)
