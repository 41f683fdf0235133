"""The failures of this program.

    ReconcilerError
    ├── Diagnosed          carries diagnostics
    │   ├── ManifestError  the manifests (or the settings) hold errors
    │   ├── Refused        a plan or a request that this program will not carry out
    │   └── Misused        a request that leaves out what is needed, or names something that does not exist
    ├── PlatformError      a read of the platform failed
    │   ├── NotFound       404: the object or its app is not there (for this token)
    │   │   └── AppMissing the app itself is not there (yet): proves nothing about its objects
    │   ├── Unauthorized   401 or 403
    │   ├── NotYet         408: the awaited state was not reached yet; ask again
    │   ├── Down           nothing but failures for a while: more requests are useless
    │   ├── UnreadableAnswer  the answer does not match the API document
    │   └── NoSuchService  no manifest says how to reach the provider or sign its requests
    ├── TransportError     a request got no complete answer
    │   ├── NotSent        provably nothing left this machine
    │   └── Lost           it was sent, or may have been
    │       └── TooLarge   the answer is over the limit, and would be again
    ├── StoreError         the state cannot be read or written
    │   ├── LeaseLost      a lease is no longer ours: nothing more may be written under it
    │   ├── StateMoved     it is somewhere else now (and Diagnosed)
    │   └── StateSealed    it is encrypted otherwise than the settings say (and Diagnosed)
    ├── SecretUnavailable  a secret's source gives no value here
    └── Locked             somebody else applies this scope

A mutation never raises for what the platform answered: its outcome is data
(`services.outcome`). A person's mistakes are diagnostics, reported together.
"""

from collections.abc import Sequence
from typing import Any

from reconciler.core.advice import Command, command
from reconciler.core.diagnostics import Diagnostic, error


class ReconcilerError(Exception):
    """Base of all failures that one sentence explains to a person, with the way out in `help`.

    `advice`: the commands that stand in the two.
    """

    def __init__(self, message: str, *, help: str = "", advice: tuple[Command, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.help = help
        self.advice = advice


class Diagnosed(ReconcilerError):
    """`diagnostics`: every problem, of which the message is the sum."""

    def __init__(
        self,
        message: str,
        diagnostics: Sequence[Diagnostic] = (),
        *,
        help: str = "",
        advice: tuple[Command, ...] = (),
    ) -> None:
        super().__init__(message, help=help, advice=advice)
        self.diagnostics = tuple(diagnostics)


class ExtraMissing(ReconcilerError):
    """A library of an extra is not installed here."""


class ManifestError(Diagnosed):
    """The manifests or the settings hold errors."""


class Refused(Diagnosed):
    """A plan or a request that this program does not carry out."""


class Misused(Diagnosed):
    """A request that lacks a part, or names something that does not exist."""


class PlatformError(ReconcilerError):
    """A read that failed finally. `status` is 0 when no answer came."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        path: str = "",
        request_id: str = "",
        help: str = "",
    ) -> None:
        super().__init__(message, help=help)
        self.status = status
        self.path = path
        self.request_id = request_id

    @property
    def is_outage(self) -> bool:
        """Whether the service failed, or the connection to it: this says nothing of what was asked."""
        return self.status >= 500 or isinstance(self.__cause__, TransportError)


class NotFound(PlatformError):
    """404: the object or its app does not exist, for this token."""


class AppMissing(NotFound):
    """The app itself does not exist yet: this proves nothing about its objects."""


class Unauthorized(PlatformError):
    """401 or 403."""


class NotYet(PlatformError):
    """The message is the platform's own, which may name the state that it is in."""


class Down(PlatformError):
    """`outage`: what all reads of that service have in common. The message is about this one."""

    def __init__(self, message: str, *, outage: str, **details: Any) -> None:
        super().__init__(message, **details)
        self.outage = outage

    @property
    def is_outage(self) -> bool:
        return True


class UnreadableAnswer(PlatformError):
    """An answer that does not match the API document."""


class NoSuchService(PlatformError):
    """No manifest says how to reach the provider or sign requests to it."""


class TransportError(ReconcilerError):
    """A request without a complete answer."""


class NotSent(TransportError):
    """A request of which provably nothing left this machine."""


class Lost(TransportError):
    """A request that was sent, or may have been, and whose answer was lost."""


class TooLarge(Lost):
    """An answer over the limit; it would be again."""


class StoreError(ReconcilerError):
    """The state cannot be read or written."""


class LeaseLost(StoreError):
    """A lease that is no longer ours: nothing more may be written under it."""


COPY = "copy:"
REKEYING = "rekey:"  # stands where a state is given another key


class StateSealed(Diagnosed, StoreError):
    """A state that is encrypted otherwise than the settings say."""


class StateMoved(Diagnosed, StoreError):
    """`to`: where the state is, without a password. `copy`: what is here has not been the state yet."""

    def __init__(self, place: object, mark: str) -> None:
        """`mark`: what stands at `place`, the URL of the state; with COPY before it, at a copy of it."""
        self.to, self.copy = mark.removeprefix(COPY), mark.startswith(COPY)
        migrate = command("state", "migrate", "URL")
        if mark == REKEYING:
            rekey = command("state", "rekey")
            message = f"the state {place} is being given another key, or `{rekey}` was interrupted"
            problem = error(
                "rekey-unfinished", message, help=f"run `{rekey}`, which ends it", advice=(rekey,)
            )
            super().__init__("the state is locked until it has its key; nothing was changed", [problem])
            return
        if self.copy:
            message = f"what is at {place} is a copy from a move that did not end: the state is {self.to}"
            help = f"go on with `state: {self.to}`, where `{migrate}` begins the move anew"
        else:
            message = f"the state {place} has moved to {self.to}"
            help = (
                f"name the new place in reconcile.yaml: `state: {self.to}` (a branch from before the move: "
                "merge or rebase), and in RECONCILE_STATE where that is set"
            )
        problem = error("state-moved", message, help=help, advice=(migrate,) if self.copy else ())
        super().__init__("the state is at another place; nothing was changed", [problem])


class SecretUnavailable(ReconcilerError):
    """Names the source that gives no value, never its content."""


def named(scope: str) -> str:
    """A scope as messages name it: that of what concerns no resource has no name of its own."""
    return f"`{scope}`" if scope else "the whole state"


class Locked(ReconcilerError):
    """Another process has held the lease of `scope` for `age_s` seconds.

    `rest_s`: it has given no sign of life for longer than its lease lasts; if none comes for so many seconds,
    the next one who asks for the lease gets it. None: it lives, as far as can be seen.
    """

    def __init__(self, scope: str, holder: str, age_s: float, rest_s: float | None = None) -> None:
        unlock = command("state", "unlock", scope, "--force")
        age_s = max(0.0, age_s)  # clocks differ
        super().__init__(
            f"{named(scope)} has been locked by {holder} for {age_s:.0f} s",
            help="wait for that process, or pass --lock-timeout SECONDS; if it hangs, break its lock with "
            f"`{unlock}`",
            advice=(unlock,),
        )
        self.scope = scope
        self.holder = holder
        self.age_s = age_s
        self.rest_s = rest_s

    @property
    def doubt(self) -> str:
        """What is not known of the holder, to be put behind what it does; "" for one that lives."""
        if self.rest_s is None:
            return ""
        return f" (it may have died; the next apply waits at most {self.rest_s:.0f} s for it)"
