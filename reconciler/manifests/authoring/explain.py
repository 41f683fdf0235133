"""Explaining: from a word that somebody typed to the page about it.

Kinds are imported only for topics that are not codes: that takes longer than all the rest.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from reconciler.core.advice import command
from reconciler.core.errors import ReconcilerError
from reconciler.core.words import did_you_mean, nearest
from reconciler.explanations import Explanation, known_codes, read_explanation

if TYPE_CHECKING:
    from reconciler.kinds.manifest import ManifestKind
    from reconciler.manifests.authoring.reference import CapabilityPage, FieldPage, KindPage

_ROOT = "spec."  # may be left out of a path


class UnknownTopic(ReconcilerError):
    """There is no such kind, field, capability or code. `help` names the nearest one."""


Kinds = Callable[[], Mapping[str, "ManifestKind"]]


def find_topic(
    topic: str, others: Kinds = dict
) -> "Explanation | KindPage | CapabilityPage | tuple[KindPage, FieldPage]":
    """The page of a diagnostic code, a kind, a field (`Volume.spec.size_gb` or `Volume.size_gb`), or a
    capability (`machine.get`).

    `others`: kinds that are not of manifests. Letter case matters in fields only, and where a code is called
    as a kind (`moved`, `Moved`). Raises UnknownTopic.
    """
    codes = known_codes()
    if topic in codes:
        return read_explanation(topic)
    from reconciler.manifests.authoring.reference import capability_pages, kind_page
    from reconciler.policies import find_manifest_kinds

    capabilities = capability_pages()
    if topic in capabilities:
        return capabilities[topic]
    name, _, path = topic.partition(".")
    kinds = {kind.name.lower(): kind for kind in {**find_manifest_kinds(), **others()}.values()}
    if name.lower() not in kinds:
        if topic.lower() in codes:
            return read_explanation(topic.lower())
        raise UnknownTopic(
            f"there is no kind, capability or code `{topic}`", help=_nearest_topic(topic, codes, others)
        )
    page = kind_page(kinds[name.lower()])
    if not path:
        return page
    try:
        return page, find_field(page, path)
    except UnknownTopic as unknown:
        if hint := did_you_mean(topic, list(capabilities)):
            raise UnknownTopic(unknown.message, help=hint) from None
        raise


def find_field(page: "KindPage", path: str) -> "FieldPage":
    """The field at `path`, which begins at the manifest's root or below `spec`. Raises UnknownTopic.

    Indices of list items and names within a mapping of names are passed over.
    """
    fields = {field.path.replace("[]", ""): field for field in page.all_fields()}
    wanted = ".".join(part.partition("[")[0] for part in path.split("."))
    for full in (wanted, _ROOT + wanted):
        parent = fields.get(full.rpartition(".")[0])
        found = fields.get(full) or (parent if parent is not None and parent.names else None)
        if found is not None:
            return found
    near = nearest(wanted, [*fields, *(name.removeprefix(_ROOT) for name in fields)])
    whole = command("explain", page.name)
    raise UnknownTopic(
        f"{page.name} has no field `{path}`",
        help=f"did you mean `{page.name}.{near}`?" if near else f"see `{whole}`",
        advice=() if near else (whole,),
    )


def topics_like(start: str, others: Kinds = dict) -> list[str]:
    """The topics that begin with `start`, whatever its letter case.

    With a dot they are a kind's fields and capabilities, else kinds, capabilities and codes.
    """
    from reconciler.manifests.authoring.reference import capability_pages, kind_page
    from reconciler.policies import find_manifest_kinds

    kinds = {**find_manifest_kinds(), **others()}
    found = [*kinds, *capability_pages(), *known_codes()]
    name, dot, path = start.partition(".")
    if dot:
        left_out = "" if path.startswith(_ROOT) else _ROOT
        pages = [kind_page(kind) for kind in kinds.values() if kind.name.lower() == name.lower()]
        fields = [
            (page.name, field.path.removeprefix(left_out)) for page in pages for field in page.all_fields()
        ]
        found = [*(f"{kind}.{field}" for kind, field in fields), *capability_pages()]
    return sorted(topic for topic in found if topic.lower().startswith(start.lower()))


def all_explanations() -> list[Explanation]:
    return [read_explanation(code) for code in known_codes()]


def all_kinds(others: Kinds = dict) -> "list[KindPage]":
    from reconciler.manifests.authoring.reference import kind_page
    from reconciler.policies import find_manifest_kinds

    return [kind_page(kind) for kind in {**find_manifest_kinds(), **others()}.values()]


def _nearest_topic(topic: str, codes: Iterable[str], others: Kinds) -> str:
    from reconciler.manifests.authoring.reference import capability_pages

    pages = all_kinds(others)
    if hint := did_you_mean(topic, [*(page.name for page in pages), *capability_pages(), *codes]):
        return hint
    for page in pages:
        for field in page.all_fields():
            if field.path.rpartition(".")[2] == topic:
                return f"did you mean the field `{page.name}.{field.path}`?"
    return f"`{command('explain')}` lists the kinds, `{command('explain', '--codes')}` the codes"
