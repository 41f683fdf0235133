"""What a controller knows of the scopes: which of it is told, and which of it the state keeps.

Messages go out about changes that people should know, and about silence, which is an alarm, too.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime, timedelta

from reconciler.controller import memory
from reconciler.controller.status import ScopeStatus, Seen, Status, View, in_words, reason_of
from reconciler.core.clock import Clock
from reconciler.core.context import BASE
from reconciler.core.errors import ReconcilerError
from reconciler.notify.events import Event, EventName, Item, Run, run_of
from reconciler.project.project import Project
from reconciler.project.settings import ProjectSettings

Tell = Callable[..., None]  # takes an event of the log: its name, with its fields by keyword

_NAMES: Mapping[Status, EventName] = {
    Status.DRIFTED: "drift",
    Status.QUESTION: "question",
    Status.OWED: "owed",
}
_SILENT_ROUNDS = 3
_UNSEEN = (Status.SUSPENDED, Status.APPLYING)  # nobody looks, and that is right


def of_change(status: ScopeStatus, run: Run) -> Iterator[Event]:
    """The event of a scope that has just got its status; none for most."""
    if name := _NAMES.get(status.status):
        yield event_of(name, status.scope, f"{status.status}: {status.reason}", run)


class Silence:
    """Which scopes nobody could look at for too long. Each is told once, and once when it is back."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def events(self, statuses: Mapping[str, ScopeStatus], every: timedelta, run: Run) -> Iterator[Event]:
        for scope, status in statuses.items():
            seen = status.last_success or status.since
            late = run.at - seen > _SILENT_ROUNDS * every and status.status not in _UNSEEN
            if late and scope not in self._told:
                self._told.add(scope)
                yield event_of("silent", scope, f"not seen since {in_words(seen)}: {status.reason}", run)
            elif not late and scope in self._told:
                self._told.discard(scope)
                yield event_of("silent", scope, f"seen again: {status.status}", run)


def event_of(name: EventName, scope: str, what: str, run: Run) -> Event:
    return Event(name, run, f"{scope}: {what}", (Item("", f"{scope}: {what}"),))


_MORE_URGENT = (Status.DRIFTED, Status.QUESTION)  # than that a plan is proposed
_SAVE_S = 60.0  # how often the times of looks are kept where nothing else changed


class Statuses:
    """`by_scope`: the status of each scope. `ours`: the scopes that this controller looks after.

    `config`: the settings of now; None before they were read. `waited_s`: see `View`.
    """

    def __init__(self, tell: Tell, clock: Clock) -> None:
        self._tell, self._clock = tell, clock
        self.config: ProjectSettings | None = None
        self.by_scope: dict[str, ScopeStatus] = {}
        self.ours: Collection[str] = ()
        self._seen: dict[str, Seen] = {}
        self._applied: dict[str, datetime] = {}
        self._calls: Counter[str] = Counter()
        self.waited_s = 0.0
        self._events: list[Event] = []  # of changes, to be sent
        self._silence = Silence()
        self._saved_s, self._is_saved = 0.0, False

    @property
    def view(self) -> View:
        """What is known now, for those who watch."""
        environment = self.config.env if self.config is not None else ""
        statuses = dict(self.by_scope)
        return View(environment or BASE, statuses, self._seen, self._applied, self._calls, self.waited_s)

    def take_up(
        self, kept: Mapping[str, ScopeStatus], scopes: Collection[str], ours: Collection[str]
    ) -> None:
        """There are `scopes`, of which `ours` are looked after here from now on.

        Of those that were not before, the state knows best.
        """
        known = {scope: kept[scope] for scope in kept.keys() & {*scopes} - {*self.ours}}
        self.by_scope = {scope: status for scope, status in self.by_scope.items() if scope in scopes} | known
        self._seen = {scope: seen for scope, seen in self._seen.items() if scope in ours}
        self.ours = ours

    def note(self, seen: Mapping[str, Seen]) -> None:
        """Take up what was seen, and tell what changed."""
        now = self._clock.now()
        for scope, found in seen.items():
            before = self.by_scope.get(scope)
            if found.status is Status.PROPOSED and before is not None and before.status in _MORE_URGENT:
                continue
            if found.status not in (Status.APPLYING, Status.PROPOSED):
                self._seen[scope] = found
            if found.status is Status.CHANGES and before is not None and before.status is Status.PROPOSED:
                found = Seen(Status.PROPOSED, before.reason, found.acts)  # until the plan was made again
            status = (before or ScopeStatus(scope, found.status, now)).after(found, now)
            self.by_scope[scope] = status
            told = (before.status, before.reason) if before is not None else None
            self._is_saved &= told == (status.status, status.reason)
            if before is None or before.status is not status.status:
                self._events += of_change(status, self._run())
                self._tell(
                    "scope.changed",
                    scope=scope,
                    status=str(status.status),
                    before=str(before.status) if before is not None else None,
                    reason=status.reason,
                )

    def applied(self, scope: str, outcomes: Mapping[str, int]) -> None:
        """An apply has ended, with so many calls of each outcome."""
        self._calls.update(outcomes)
        self._applied[scope] = self._clock.now()

    @property
    def _of_ours(self) -> Mapping[str, ScopeStatus]:
        return {scope: status for scope, status in self.by_scope.items() if scope in self.ours}

    @property
    def is_blind(self) -> bool:
        """Whether not all of our scopes could be read."""
        unread = any(each.status is Status.UNKNOWN for each in self._of_ours.values())
        return unread or self.config is None

    def proposed(self, scope: str, file: str) -> None:
        """A new proposal waits in `file`."""
        self._events.append(event_of("proposed", scope, f"{file} waits for approvals", self._run()))

    def end_round(self, every_s: float) -> None:
        """Tell of those of our scopes that could not be seen for long, or are seen again."""
        self._events += self._silence.events(self._of_ours, timedelta(seconds=every_s), self._run())

    def events(self) -> list[Event]:
        """What is to be sent now."""
        events, self._events = self._events, []
        return events

    def _run(self) -> Run:
        """This controller, as messages name it."""
        assert self.config is not None
        return run_of(self.config, "controller", 0, self._clock.now())

    async def save(self, project: Project, every_s: float) -> None:
        """Keep our statuses in the state, where it can be written and something changed."""
        now_s = self._clock.monotonic()
        if self._is_saved and now_s < self._saved_s + max(_SAVE_S, every_s):
            return
        state = await project.store.load()
        self._is_saved, self._saved_s = True, now_s
        if not state.lineage:
            return
        gone = frozenset(memory.read(state).statuses.keys() - self.by_scope.keys())
        try:
            await memory.write(project.store, project.actor(), self._of_ours, gone)
        except ReconcilerError as failure:
            self._is_saved = False
            self._tell("statuses.unsaved", reason=reason_of(failure))
