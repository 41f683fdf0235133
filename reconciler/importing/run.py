"""Import: from what runs on the platform to manifests that adopt it. Sends nothing but GET."""

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from anyio.lowlevel import checkpoint
from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.advice import command
from reconciler.core.diagnostics import UNKNOWN_OUTCOME, Diagnostic, Severity, error, warning
from reconciler.core.errors import Refused
from reconciler.core.model import Address
from reconciler.execution.open_intents import parse_intent
from reconciler.importing.arrange import Entry, file_stem, sort_out
from reconciler.importing.ownership import Known, Live, Skipped
from reconciler.importing.search import Wanted, find_live
from reconciler.kinds import find_kinds
from reconciler.manifests.files import name_of
from reconciler.manifests.load import Loaded
from reconciler.manifests.validation.envelope import API_VERSION
from reconciler.manifests.writing.replace import Replacement, prepare, put
from reconciler.manifests.writing.write import Commented, comment, modeline, write
from reconciler.moves.records import follow_moves
from reconciler.project.gather import read_siblings
from reconciler.project.project import Project
from reconciler.state.store import State

_HEAD = (
    "Imported from the platform. What is not written here has the platform's default, or is not known;",
    "apply does not change it until somebody writes it.",
)
_SKELETON = re.compile(rb"^# ([A-Z][A-Za-z]*/\S+) is set on the platform; ", re.MULTILINE)


class Unmanaged(Struct, frozen=True):
    """What the platform has and nobody declares or tracks, as manifests; and what else was found.

    `reported`: keys of the skipped objects that a diagnostic tells of.
    """

    entries: Sequence[Entry]
    skipped: Sequence[Skipped]
    diagnostics: Sequence[Diagnostic]
    reported: frozenset[tuple[str, str, str]]


class Planned(Struct, frozen=True):
    """One file of an import, and what of it the file gets."""

    change: Replacement
    entries: Sequence[Entry]


async def find_unmanaged(
    project: Project,
    loaded: Loaded,
    wanted: Wanted,
    root: Path,
    elsewhere: frozenset[Address] = frozenset(),
) -> Unmanaged:
    """`loaded`: all manifests that may declare something of what is wanted, named relative to `root`.

    `elsewhere`: addresses that its environment takes out, which new manifests still must not use.
    """
    state = await project.store.load()
    kinds = find_kinds()
    known = Known(
        loaded.resources,
        follow_moves(kinds, loaded.policies, loaded.resources, state.records).records,
        loaded.policies,
        kinds,
        _skeletons(root, loaded) if "secrets.list" in project.capabilities else frozenset(),
        elsewhere,
        await read_siblings(project.environments),
    )
    found = await find_live(project, wanted, known_apps=known.apps(), is_new=known.is_new)
    doubtful, open_calls = _doubtful(found.live, state)
    entries, skipped = sort_out((live for live in found.live if live.key not in doubtful), known)
    problems = [*found.problems, *open_calls]
    reported = set()
    for each in skipped:
        if each.why == "gone" and each.live.key in found.by_id:
            reported.add(each.live.key)
            problems.append(error("not-importable", f"{each.live} cannot be imported: {each.reason}"))
        elif each.why == "refused":
            reported.add(each.live.key)
            problems.append(warning("not-importable", f"{each.live} is not imported: {each.reason}"))
    return Unmanaged(entries, skipped, (*problems, *_objectives(known, entries)), frozenset(reported))


def _skeletons(root: Path, loaded: Loaded) -> frozenset[str]:
    """Addresses that stand in the manifests as comments, as these show them."""
    found: set[str] = set()
    for name in loaded.files:
        found |= {address.decode() for address in _SKELETON.findall((root / name).read_bytes())}
    return frozenset(found)


def _doubtful(found: Sequence[Live], state: State) -> tuple[set[tuple[str, str, str]], list[Diagnostic]]:
    """Keys of objects that a call of unknown outcome may have made: whose they are is settled first."""
    doubtful: set[tuple[str, str, str]] = set()
    problems = []
    for entry in state.open_intents:
        address = entry.address
        if address is None or not parse_intent(entry).creates:
            continue
        near = [
            live
            for live in found
            if live.kind.name == address.kind and (not live.kind.in_app or live.place == address.app)
        ]
        if near:
            apply = command("apply")
            doubtful |= {live.key for live in near}
            problems.append(
                error(
                    UNKNOWN_OUTCOME,
                    f"a call for `{address}` has an unknown outcome: it may have created one of "
                    f"{len(near)} {address.kind}s that were found, so none of them is imported",
                    help=f"run `{apply}`, which settles it or asks, and import again",
                    advice=(apply,),
                    about=(address,),
                )
            )
    return doubtful, problems


def _objectives(known: Known, entries: Sequence[Entry]) -> Iterator[Diagnostic]:
    """Where a policy wants more of an imported object than it has: then a plan shows more than adoptions."""
    for policy, count in known.objectives(entry.live for entry in entries):
        yield warning(
            "import-objective",
            f"{policy.address} has objectives for {count} of the imported objects: the next plan may also "
            "contain changes for them",
            policy.span("spec"),
        )


# --- files ---


def arrange(unmanaged: Unmanaged, *, check: Callable[[str], Loaded], out: Path, root: Path) -> list[Planned]:
    """The files that the entries go into, below `out`. Nothing is written.

    `check`: loads the manifests that there are together with those in a folder. Raises Refused when they
    are not valid.
    """
    groups: dict[str, list[Entry]] = {}
    for entry in unmanaged.entries:
        stem = entry.declared.place
        if not entry.live.kind.in_app:
            stem = f"org-{file_stem(stem) or 'unnamed'}"
        groups.setdefault(stem, []).append(entry)
    reserved: set[str] = set()
    planned = []
    for stem in sorted(groups):
        documents = [_document(entry) for entry in groups[stem]]
        remarks = [*_HEAD, *_never_returned(groups[stem])]

        def text(before: bytes | None, documents: Sequence[Commented] = documents) -> str:
            held = (before or b"").decode("utf-8-sig", errors="replace").splitlines()
            head = [line for line in remarks if comment(line) not in held]  # noqa: B023 - called at once
            if before is None:
                head.insert(0, modeline(out, root))
            return write(documents, head=head, follows=before is not None)

        planned.append(Planned(prepare(out, stem, text, reserved), groups[stem]))
    _validate(planned, check, root)
    return planned


def _document(entry: Entry) -> Commented:
    address = entry.address
    metadata = {"name": address.name}
    if address.app is not None:
        metadata["app"] = address.app
    if not entry.declared.skeleton and entry.live.kind.id_path[0] == "metadata":
        metadata["id"] = entry.live.id
    value: Mapping[str, object] = {
        "apiVersion": API_VERSION,
        "kind": address.kind,
        "metadata": metadata,
        "spec": entry.spec,
    }
    return Commented(value, entry.comments, disabled=entry.declared.skeleton)


def _never_returned(entries: Sequence[Entry]) -> Iterator[str]:
    """What an adoption cannot know, for each kind."""
    for kind in dict.fromkeys(entry.live.kind for entry in entries if not entry.declared.skeleton):
        names = ", ".join(f"`{field.name}`" for field in kind.fields if field.source == "record")
        if names:
            yield f"{kind.name}: the platform never shows {names}: unknown here, and never compared."


def _validate(planned: Sequence[Planned], check: Callable[[str], Loaded], root: Path) -> None:
    shown = {}  # by the name of a temporary file, where its text would have stood
    with tempfile.TemporaryDirectory() as folder:
        for number, each in enumerate(planned):
            file = Path(folder) / f"{number:06}-{each.change.path.name}"
            file.write_text(each.change.added, encoding="utf-8")
            shown[name_of(str(file), root)] = name_of(str(each.change.path), root)
        loaded = check(folder)
    problems = [_elsewhere(item, shown) for item in loaded.diagnostics if item.severity is Severity.ERROR]
    if problems:
        raise Refused(
            "the objects that were found do not give valid manifests; nothing was written", problems
        )


def _elsewhere(problem: Diagnostic, shown: Mapping[str, str]) -> Diagnostic:
    """`problem`, which may stand in a temporary file, reported for the file that its text was meant for."""

    def named(text: str) -> str:
        for temporary, meant in shown.items():
            text = text.replace(temporary, meant)
        return text

    notes = tuple(map(named, problem.notes))
    span = problem.span
    if span is not None and span.file in shown:  # a place that nobody can look at
        notes = (*filter(None, [problem.label]), f"in the text for {shown[span.file]}", *notes)
        span = None
    return replace(
        problem,
        message=named(problem.message),
        span=span,
        notes=notes,
        help=named(problem.help),
    )


async def put_all(planned: Sequence[Planned]) -> None:
    """Write the files one after another; a cancellation takes effect between two of them."""
    for each in planned:
        await checkpoint()
        put(each.change)
