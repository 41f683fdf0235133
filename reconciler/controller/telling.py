"""Messages about scopes: changes that people should know of, and silence, which is an alarm, too. Pure."""

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta

from reconciler.controller.status import ScopeStatus, Status, in_words
from reconciler.notify.events import Event, EventName, Item, Run

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
