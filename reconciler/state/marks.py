"""Marks of what this user saw of states, in a folder that an older copy of a state does not bring back.

One file for each lineage and place: how many entries the journal of each scope had, and the hash of its end.
A state that has fewer was put back to an older copy, or is a copy of one that went on elsewhere. All of it is
best effort: without the folder everything else works.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from reconciler.core.advice import command
from reconciler.core.diagnostics import error
from reconciler.core.errors import Diagnosed, StoreError
from reconciler.core.words import counted
from reconciler.state.durable import make_private
from reconciler.state.store import WHOLE_STATE, State, refuse_beside_traces

SEALED_NAME = "enc-[A-Za-z0-9_-]{64,}"  # as older programs named the scopes of an encrypted state
Ends = Mapping[str, tuple[int, str]]  # by scope: how many journal entries, and the newest one's hash


class StateOlder(Diagnosed, StoreError):
    """The state lacks changes that were seen. `because`: which, in words."""

    def __init__(self, because: str) -> None:
        self.because, restore = because, command("state", "restore")
        problem = error(
            "state-incomplete",
            because,
            help="use the newer one, or put it back; if it is lost, go on with this one by "
            f"`{restore}`: then every plan says what to look for",
            advice=(restore,),
        )
        super().__init__("the state is not the newest one", [problem])


class Mark(Struct, frozen=True):
    """What was seen at `place`. Hashes are "" where they are not known."""

    file: Path
    place: str
    ends: Ends

    def missing_in(self, state: State, place: str) -> int:
        """How many entries the state at `place` lacks. An end that is another one than before counts as one.

        A rekey or a move, after which all ends are others, adds an entry to the whole state or changes place.
        """
        found = state.lengths
        lacking = sum(max(0, length - found.get(scope, 0)) for scope, (length, _) in self.ends.items())
        begin = 0, ""
        comparable = place == self.place and self.ends.get(WHOLE_STATE, begin)[0] == found.get(WHOLE_STATE, 0)
        if lacking or not comparable:
            return lacking
        return sum(
            bool(hash) and found.get(scope) == length and state.heads.get(scope) != hash
            for scope, (length, hash) in self.ends.items()
        )


class Marks:
    """The marks in `folder`, of the state at `place`. `read_only`: none is written.

    `tell` gets a line where another state was at this place; None: several may have a place of this name.
    """

    def __init__(
        self, folder: Path, place: str, tell: Callable[[str], None] | None = None, *, read_only: bool = False
    ) -> None:
        self._folder = folder
        self._tell = tell
        self._place = place
        self._name = hashlib.sha256(place.encode()).hexdigest()[:32]
        self._read_only = read_only
        self._lineage = ""
        self._lengths: dict[str, int] = {}
        self._changed: set[str] = set()

    def of(self, lineage: str) -> Sequence[Mark]:
        """What was seen of this state, at any place."""
        found = (_read(file) for file in sorted(self._folder.glob(f"*.{lineage}.mark")))
        return [mark for mark in found if mark is not None]

    def traces(self) -> Sequence[Path]:
        """The marks of all states that were at this place, or at another one of this name."""
        return sorted(self._folder.glob(f"{self._name}.*.mark"))

    def here(self) -> Sequence[Path]:
        """The marks of all states that surely were at this place."""
        return self.traces() if self._tell is not None else []

    def refuse_new(self) -> None:
        """Raises StoreError where a state was at this place."""
        refuse_beside_traces(self._place, self.here())

    def lost(self, state: State, seen: Sequence[Mark]) -> str:
        """Which changes that were `seen` this state lacks, in words; "" for none."""
        for mark in seen:
            if missing := mark.missing_in(state, self._place):
                what = f"a copy of this state at {mark.place} has newer changes: {self._place}"
                if mark.place == self._place:
                    what = f"the state {self._place} is older than what was seen of it: it"
                return f"{what} lacks {counted(missing, 'committed change')} ({mark.file} counts them)"
        return ""

    def keep(self, state: State, seen: Sequence[Mark]) -> None:
        """Mark `state` as seen, unless what was `seen` says so already, or nothing is in it."""
        first = not self._lineage
        self._lineage, self._lengths = state.lineage, dict(state.lengths)
        for file in self.here() if first else ():
            if file != self._file and self._tell is not None:
                self._tell(
                    f"another state was at {self._place} before, with lineage {file.name.split('.')[1]}; if "
                    f"this is the right one, `{command('state', 'init')}` says so"
                )
        ends = _ends(state)
        if ends and not any(mark.place == self._place and mark.ends == ends for mark in seen):
            self._write(ends)

    def committed(self, scope: str, entries: int) -> None:
        """Count a change of the state that was kept last. The first of a scope is marked at once."""
        if not self._lineage:
            return
        self._lengths[scope] = self._lengths.get(scope, 0) + entries
        if scope not in self._changed:
            self._changed.add(scope)
            self._append(self._file, {scope: (self._lengths[scope], "")})

    def released(self) -> None:
        """Mark all changes. A killed run does not come here, but its first one in each scope is marked."""
        if self._changed:
            self._append(self._file, {scope: (self._lengths[scope], "") for scope in self._changed})
        self._changed.clear()

    def accept(self, state: State) -> None:
        """From now on this is the state at this place, and the newest of its lineage."""
        for file in (*self._folder.glob(f"*.{state.lineage}.mark"), *self.here()):
            with suppress(OSError):
                file.unlink(missing_ok=True)
        self._lineage, self._lengths = state.lineage, dict(state.lengths)
        self._write(_ends(state))

    def _write(self, ends: Ends) -> None:
        new = self._file.with_name(f"{self._file.name}.{os.getpid()}.new")
        self._append(new, ends)
        with suppress(OSError):
            new.replace(self._file)

    @property
    def _file(self) -> Path:
        return self._folder / f"{self._name}.{self._lineage}.mark"

    def _append(self, file: Path, ends: Ends) -> None:
        if self._read_only:
            return
        line = json.dumps({"place": self._place, "ends": ends}).encode() + b"\n"
        how = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        with suppress(OSError):
            make_private(self._folder)
            descriptor = os.open(file, how, 0o600)
            try:
                os.write(descriptor, line)
            finally:
                os.close(descriptor)


def _read(file: Path) -> Mark | None:
    """None for what was not written whole. Each line replaces what those before say of its scopes."""
    try:
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        ends = {scope: (int(n), str(hash)) for line in lines for scope, (n, hash) in line["ends"].items()}
        readable = {scope: end for scope, end in ends.items() if not re.fullmatch(SEALED_NAME, scope)}
        return Mark(file, lines[0]["place"], readable)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
        return None


def _ends(state: State) -> Ends:
    return {scope: (state.lengths.get(scope, 0), hash) for scope, hash in state.heads.items()}
