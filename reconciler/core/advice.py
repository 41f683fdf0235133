"""Commands that a text advises, as data.

A text (a help, a message, a reason) holds its commands as they are typed, so that it reads well everywhere.
The same commands accompany it as `advice`. A report adds the options of its run to them (`spell`), so
that they act on the same state and platform.
"""

import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

PROGRAM = "reconcile"

# Verbs of two words, and those that take the options of a state. A test compares them with the command line.
_GROUPS = frozenset({"state", "secret", "extension", "provider", "policy", "controller"})
_ON_STATE = frozenset(
    {
        *("plan", "apply", "drift", "forecast", "import", "show", "resolve", "state", "extension"),
        *("doctor", "history", "approve", "bundle", "undo", "controller", "inventory", "drill"),
    }
)
_ON_STATE_TOO = frozenset({("secret", "fingerprint"), ("policy", "backtest")})


class RunOptions(Struct, frozen=True):
    """Options of a run that a suggested command needs, too. "": not given.

    `state`: never one that may hold a password.
    """

    env: str = ""
    state: str = ""
    sandbox: bool = False


NO_OPTIONS = RunOptions()


class Command(NamedTuple):
    """One command of this program. `words`: verb and arguments, unquoted; capitals are to be filled in.

    `str()` is the line for a shell.
    """

    words: tuple[str, ...]
    options: tuple[str, ...] = ()

    @property
    def argv(self) -> tuple[str, ...]:
        """All words: the program, the verb, the options, and the arguments."""
        length = self._verb_length
        return (PROGRAM, *self.words[:length], *self.options, *self.words[length:])

    def __str__(self) -> str:
        return shlex.join(self.argv)

    def with_options(self, run: RunOptions) -> "Command":
        """Return the command with the run's options, as far as its verb accepts them."""
        verb = self.words[: self._verb_length]
        options = []
        if verb[0] in _ON_STATE or verb in _ON_STATE_TOO:
            options += ["--env", run.env] if run.env else []
            options += ["--state", run.state] if run.state and "--state" not in self.words else []
            options += ["--sandbox"] if run.sandbox else []
        return self._replace(options=tuple(options))

    @property
    def _verb_length(self) -> int:
        return 2 if not _GROUPS.isdisjoint(self.words[:1]) else 1  # a saved plan may hold no word at all


def command(*words: object) -> Command:
    """`command("state", "forget", address)`."""
    return Command(tuple(map(str, words)))


def commands_in(text: str) -> list[Command]:
    """Return the commands in backticks of a text without `advice`, such as a note or a recorded text."""
    return [command(*line.split()) for line in re.findall(f"`{PROGRAM} ([^`]+)`", text)]


def pieces(text: str, advice: Sequence[Command]) -> list[str | Command]:
    """Return `text` cut at the commands of `advice` that it holds, in order."""
    found: list[str | Command] = [text] if text else []
    for command in sorted(set(advice), key=lambda command: len(str(command)), reverse=True):
        found = [part for piece in found for part in _cut(piece, command)]
    return found


def spell(text: str, advice: Sequence[Command], run: RunOptions) -> str:
    """Return `text` with the run's options in the commands of `advice`."""
    if not advice:
        return text
    parts = pieces(text, advice)
    return "".join(part if isinstance(part, str) else str(part.with_options(run)) for part in parts)


def _cut(piece: str | Command, command: Command) -> list[str | Command]:
    if isinstance(piece, Command):
        return [piece]
    found: list[str | Command] = []
    first, *others = piece.split(str(command))
    found += [first] if first else []
    for other in others:
        found += [command, other] if other else [command]
    return found
