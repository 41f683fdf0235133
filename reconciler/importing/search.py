"""Finds the live objects that a person names by app, organization or id. Sends nothing but GET."""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from reconciler.core.diagnostics import Diagnostic, error
from reconciler.core.errors import ReconcilerError
from reconciler.core.model import Address, Observation
from reconciler.core.steps import Read
from reconciler.importing.ownership import Known, Live
from reconciler.kinds import find_kinds
from reconciler.kinds.roles import Importable
from reconciler.project.project import Project, read_all


class Wanted(Struct, frozen=True):
    """The objects to look for. `objects`: pairs of app and id. `ids`: of objects whose app is not named.

    `alone`: ids of objects outside apps. `either`: words that are such an id or an app. `kinds`: kinds that
    are imported only when asked for, and are.
    """

    apps: Sequence[str] = ()
    organizations: Sequence[str] = ()
    objects: Sequence[tuple[str, str]] = ()
    ids: Sequence[str] = ()
    alone: Sequence[str] = ()
    either: Sequence[str] = ()
    kinds: frozenset[str] = frozenset()


def _importable() -> list[Importable]:
    return [role for kind in find_kinds().values() if (role := kind.role(Importable)) is not None]


def meaning(word: str) -> Literal["app", "id", "either"]:
    """The possible meaning of a bare word. Ids without a prefix look like names of apps."""
    for kind in _importable():
        if kind.id_form and re.fullmatch(kind.id_form, word):
            return "id" if kind.in_app else "either"
    return "app"


async def find_live(project: Project, wanted: Wanted, known: Known | None = None) -> "Search":
    """Find the objects that `wanted` names, once each.

    An id without an app is searched in the apps of `known`. An object from a list that shows ids and names
    only is read by itself, unless `known` has it. Raises ReconcilerError if the capability for a list that is
    wanted is missing.
    """
    search = Search(project, wanted, known.apps() if known is not None else ())
    search.check_capabilities()
    await search.read(search.first_reads())
    listed = [live for slug in wanted.organizations for live in search.organization(slug)]
    new = [live for live in listed if known is None or known.is_new(live)]
    await search.read(read for live in new for read in search.details(live))
    found = [detailed for live in listed for detailed in search.detailed(live)]
    for app in wanted.apps:
        found += search.app(app)
    for id in wanted.alone:
        found += search.alone(id)
    for word in wanted.either:
        found += search.app_or_alone(word)
    for app, id in wanted.objects:
        found += search.object(id, [app])
    for id in wanted.ids:
        found += search.object(id, search.apps_of_ids)
    search.live = list({live.key: live for live in found}.values())
    return search


@dataclass(slots=True)
class Search:
    """`by_id`: keys of objects that were named by id. `problems`: errors about reads and missing objects.

    `at`: the platform's time of the newest answer; None without any.
    """

    project: Project
    wanted: Wanted
    known_apps: Sequence[str]
    live: Sequence[Live] = ()
    problems: list[Diagnostic] = field(default_factory=list)
    by_id: set[tuple[str, str, str]] = field(default_factory=set)
    at: datetime | None = None
    kinds: list[Importable] = field(init=False)
    apps_of_ids: list[str] = field(init=False)
    _answers: dict[Read, Sequence[Any]] = field(default_factory=dict)
    _unread: dict[Read, str] = field(default_factory=dict)
    _reported: set[Read] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.kinds = _importable()
        named = dict.fromkeys((*self.wanted.apps, *(app for app, _ in self.wanted.objects)))
        self.apps_of_ids = list(named or self.known_apps) if self.wanted.ids else []

    def check_capabilities(self) -> None:
        wanted = [kind for kind in self.kinds if kind.name in self.wanted.kinds]
        if self.wanted.organizations:
            wanted += [kind for kind in self.kinds if not kind.in_app]
        for kind in wanted:
            if kind.listing("-", self.project.capabilities) is None:
                by_id = "" if kind.in_app else "; or import each by its id"
                raise ReconcilerError(
                    f"to list {kind.name}s, reconcile needs the capability `{kind.list_capability}`",
                    help="add it to `platform.capabilities` in reconcile.yaml if your platform has that "
                    f"endpoint{by_id}",
                )

    # --- reading ---

    def first_reads(self) -> Iterator[Read]:
        """All lists and single objects that are named."""
        for app in (*self.wanted.apps, *self.wanted.either):
            yield from (read for _, read in self._lists(app, self._of_whole_apps()))
        for app in (*(app for app, _ in self.wanted.objects), *self.apps_of_ids):
            yield from (read for _, read in self._lists(app, self.kinds))
        for slug in self.wanted.organizations:
            yield from (read for _, read in self._lists(slug, self.kinds, in_app=False))
        for id in (*self.wanted.alone, *self.wanted.either):
            yield from (read for _, read in self._singles(id))

    async def read(self, reads: Iterable[Read]) -> None:
        def take(read: Read, observation: Observation) -> None:
            if observation.complete:
                self._answers[read] = observation.objects
                self.at = max(self.at or observation.at, observation.at)
            else:
                self._unread[read] = observation.problem

        await read_all(self.project, list(dict.fromkeys(reads)), take)

    def _of_whole_apps(self) -> list[Importable]:
        return [kind for kind in self.kinds if not kind.import_when_asked or kind.name in self.wanted.kinds]

    def _lists(
        self, place: str, kinds: Sequence[Importable], *, in_app: bool = True
    ) -> Iterator[tuple[Importable, Read]]:
        for kind in kinds:
            read = kind.listing(place, self.project.capabilities) if kind.in_app is in_app else None
            if read is not None:
                yield kind, read

    def _singles(self, id: str) -> Iterator[tuple[Importable, Read]]:
        for kind in self.kinds:
            read = None if kind.in_app else kind.read(Address(kind.name, "-"), id, self.project.capabilities)
            if read is not None:
                yield kind, read

    # --- what the answers hold ---

    def organization(self, slug: str) -> Iterator[Live]:
        for kind, read in self._lists(slug, self.kinds, in_app=False):
            yield from self._objects(kind, slug, read, f"{kind.name}s of `{slug}`")

    def details(self, live: Live) -> Iterator[Read]:
        if not live.item.bad_id:  # others cannot be imported, and no path may hold some
            yield from (read for kind, read in self._singles(live.id) if kind is live.kind)

    def detailed(self, live: Live) -> Iterator[Live]:
        """`live` as its own read shows it, if there was one; nothing if that read failed."""
        read = next(self.details(live), None)
        if read is None or (read not in self._answers and read not in self._unread):
            yield live
        else:
            yield from self._objects(live.kind, live.place, read, str(live))

    def app(self, app: str) -> Iterator[Live]:
        lists = list(self._lists(app, self._of_whole_apps()))
        if lists and all(read in self._unread for _, read in lists):
            self._reported |= {read for _, read in lists}
            problem = self._unread[lists[-1][1]]
            self.problems.append(error("unreadable", f"cannot read app `{app}`: {problem}"))
        for kind, read in lists:
            yield from self._objects(kind, app, read, f"{kind.name}s of app `{app}`")

    def alone(self, id: str) -> list[Live]:
        """The object outside apps with this id."""
        singles = list(self._singles(id))
        found = [
            live for kind, read in singles for live in self._objects(kind, "", read, f"{kind.name} {id}")
        ]
        self.by_id |= {live.key for live in found}
        if not found and all(read in self._answers for _, read in singles):
            kinds = " or ".join(kind.name for kind, _ in singles)
            return self.refused(_not_found(f"there is no {kinds} with id `{id}`"))
        return found

    def app_or_alone(self, word: str) -> list[Live]:
        """The objects of `word`, if it has one meaning only. A missing answer proves nothing."""
        lists = [read for _, read in self._lists(word, self._of_whole_apps())]
        is_app = any(read in self._answers for read in lists)
        is_alone = any(self._answers.get(read) for _, read in self._singles(word))
        if is_app and is_alone:
            quoted = shlex.quote(word)
            return self.refused(
                error(
                    "import-ambiguous",
                    f"`{word}` is the name of an app and also the id of an object outside apps",
                    help=f"write `--app {quoted}` or `--cluster {quoted}` to say which one you mean",
                )
            )
        if not is_app and not is_alone and all(read in self._answers for _, read in self._singles(word)):
            kinds = " or ".join(kind.name for kind, _ in self._singles(word))
            problem = "; ".join(sorted({self._unread[read] for read in lists[-1:]}))
            return self.refused(
                _not_found(f"`{word}` is neither the id of a {kinds} nor an app that can be read: {problem}")
            )
        return self.alone(word) if is_alone else list(self.app(word))

    def object(self, id: str, apps: Sequence[str]) -> list[Live]:
        """The object with this id in one of `apps`."""
        if not apps:
            help = f"the platform shows it only below its app: write APP/{id}"
            return self.refused(_not_found(f"the app of `{id}` is not known", help))
        same_name = []
        for app in apps:
            for kind, read in self._lists(app, self.kinds):
                for live in self._objects(kind, app, read, f"{kind.name}s of app `{app}`"):
                    if live.id == id:
                        self.by_id.add(live.key)
                        return [live]
                    if getattr(live.item, "name", None) == id:
                        same_name.append(f"{app}/{live.id}")
        if not same_name and any(
            read in self._unread for app in apps for _, read in self._lists(app, self.kinds)
        ):
            return []  # it may be there; the failed read is reported already
        help = f"that is the name of {_joined(same_name)}: write the id" if same_name else "check id and app"
        where = _joined([f"`{app}`" for app in apps])
        return self.refused(_not_found(f"no object with id `{id}` in {where}", help))

    def refused(self, problem: Diagnostic) -> list[Live]:
        self.problems.append(problem)
        return []

    def _objects(self, kind: Importable, place: str, read: Read, shown: str) -> Iterator[Live]:
        if read in self._unread and read not in self._reported:
            self._reported.add(read)
            self.problems.append(error("unreadable", f"cannot read {shown}: {self._unread[read]}"))
        for item in self._answers.get(read, ()):
            yield Live(kind, place, item)


def _not_found(message: str, help: str = "check the id") -> Diagnostic:
    return error("import-not-found", message, help=help)


def _joined(words: Sequence[str]) -> str:
    more = f" and {len(words) - 5} more" if len(words) > 5 else ""
    return ", ".join(words[:5]) + more
