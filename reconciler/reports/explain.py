"""Pages about kinds, fields and diagnostic codes."""

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from reconciler.explanations import Explanation
from reconciler.reports.report import Page

if TYPE_CHECKING:  # importing the models of manifests takes longer than all the rest
    from reconciler.manifests.authoring.reference import CapabilityPage, FieldPage, KindPage

Heading = Callable[[str], str]  # marks a heading, such as by bold type

_WIDTH = 100
_INDENT = "  "
FENCE = re.compile(r"^```\w*$")
TITLE = re.compile(r"^#+ ")
# Starts the part of a text that a list of fields has no room for: the cure, the way of comparing.
_RECIPE = re.compile(r": | \(")


def kinds_page(pages: Sequence["KindPage"], heading: Heading) -> Page:
    """All kinds with their descriptions."""
    lines = [heading("Kinds")]
    for page in pages:
        lines += [f"{_INDENT}{page.name}", *_wrapped(page.description, 6)]
    lines += [
        "",
        "More: `reconcile explain KIND`, `reconcile explain KIND.FIELD`, such as Volume.size_gb.",
        "About errors: `reconcile explain CODE`; `reconcile explain --codes` lists the codes.",
    ]
    kinds = [{"kind": page.name, "description": page.description} for page in pages]
    return _page({"kinds": kinds}, lines)


def codes_page(explanations: Sequence[Explanation], heading: Heading) -> Page:
    """All codes with their titles."""
    width = max(len(explanation.code) for explanation in explanations)
    lines = [f"{_INDENT}{page.code.ljust(width)}{_INDENT}{page.title}" for page in explanations]
    codes = [{"code": page.code, "title": page.title} for page in explanations]
    return _page({"codes": codes}, [heading("Codes"), *lines, "", "More: `reconcile explain CODE`."])


def code_page(explanation: Explanation, heading: Heading) -> Page:
    """The page of a diagnostic code. Its JSON holds Markdown."""
    lines = [heading(f"{explanation.code}: {explanation.title}"), ""]
    fenced = False
    for line in explanation.text.splitlines():
        if FENCE.match(line):
            fenced = not fenced
        elif fenced:
            lines.append(f"    {line}".rstrip())
        else:
            lines.append(heading(TITLE.sub("", line)) if TITLE.match(line) else line)
    return _page(asdict(explanation), lines)


def kind_page(page: "KindPage", heading: Heading) -> Page:
    """One kind with an example and all its fields."""
    lines = [heading(page.name), *_wrapped(page.description, 2), "", heading("Example")]
    lines += [textwrap.indent(page.example.rstrip(), "    "), "", heading("Fields")]
    for field in page.fields:
        for shown in field.fields or (field,):
            lines += _field_lines(shown, shown.path)
    if page.variables:
        lines += ["", heading("Variables of expressions")]
        for name, says in page.variables.items():
            lines += [f"{_INDENT}{name}", *_wrapped(says, 6)]
    lines += ["", f"More: `reconcile explain {page.name}.FIELD`."]
    document: dict[str, Any] = {"kind": page.name, "description": page.description, "example": page.example}
    document |= {"variables": dict(page.variables)} if page.variables else {}
    return _page({**document, "fields": [_field_document(field) for field in page.fields]}, lines)


def field_page(page: "KindPage", field: "FieldPage", heading: Heading) -> Page:
    """One field with the effect of a change, the fields in it, and examples."""
    lines = [heading(f"{page.name}.{field.path}"), f"{_INDENT}{signature(field)}"]
    lines += _wrapped(field.description, 2)
    if field.change:
        lines += ["", heading("When it changes"), *_wrapped(field.change, 2)]
    if field.fields:
        lines += ["", heading("Fields")]
        for below in field.fields:
            lines += _field_lines(below, _under(field, below), known=field.change)
    if field.examples:
        lines += ["", heading("Example"), textwrap.indent(_alternatives(field), "    ")]
    return _page({"kind": page.name, "field": _field_document(field)}, lines)


def capability_page(page: "CapabilityPage", heading: Heading) -> Page:
    """One capability, and the setting that declares it."""
    lines = [heading(page.name), *_wrapped(page.description, 2), ""]
    lines += _wrapped(
        f"A capability, used by {page.kind}. The API document does not show it. If your platform supports "
        "it, add it to reconcile.yaml.",
        2,
    )
    lines += ["", f"    platform:\n      capabilities: [{page.name}]"]
    return _page({"capability": page.name, "kind": page.kind, "description": page.description}, lines)


def _page(document: Mapping[str, Any], lines: Sequence[str]) -> Page:
    return Page(document=document, text="".join(f"{line}\n" for line in lines))


def _field_document(field: "FieldPage") -> dict[str, Any]:
    found = asdict(field) | {"fields": [_field_document(below) for below in field.fields]}
    del found["names"], found["forms"]
    return found


def _field_lines(field: "FieldPage", name: str, known: str = "") -> Iterator[str]:
    """The lines about one field. `known`: a change that is not said again."""
    yield f"{_INDENT}{name}{_INDENT}{signature(field)}"
    yield from _wrapped(field.description, 6)
    if field.change and field.change != known:
        yield from _wrapped(f"When it changes: {_RECIPE.split(field.change)[0]}.", 6)
    if field.fields:
        yield from _wrapped(f"Fields: {', '.join(_under(field, below) for below in field.fields)}.", 6)


def _under(field: "FieldPage", below: "FieldPage") -> str:
    return below.path.removeprefix(field.path).removeprefix(".")


def signature(field: "FieldPage") -> str:
    """`integer, at least 1, required`."""
    default = _words(field.default)
    return ", ".join(
        [
            field.type,
            *field.limits,
            *(["required"] if field.required else []),
            *([f"default {default}"] if default else []),
        ]
    )


def _words(default: Any) -> str:
    if isinstance(default, list):
        return f"[{', '.join(map(str, default))}]"
    return "" if default is None else str(default)


def _alternatives(field: "FieldPage") -> str:
    return "\n# or\n".join(example.rstrip() for example in field.examples)


def _wrapped(text: str, indent: int) -> list[str]:
    margin = " " * indent
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=margin,
        subsequent_indent=margin,
        break_long_words=False,
        break_on_hyphens=False,
    )
