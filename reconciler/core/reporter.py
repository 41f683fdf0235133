"""Progress, as events that a front end may show. The methods here do nothing."""

from reconciler.core.errors import Locked
from reconciler.core.model import Address
from reconciler.core.steps import Step

TELL_EVERY_S = 30.0  # how often a person is told that something is still being waited for


class Reporter:
    """Receives events while they happen. Its methods must not raise or block."""

    def loading(self, files: int) -> None:
        """Manifests are being read."""

    def observing(self, done: int, total: int, waited_s: float) -> None:
        """`done` of `total` platform reads are answered, after `waited_s` seconds."""

    def note(self, message: str) -> None:
        """A fact worth a line that no other event carries."""

    _reasons: frozenset[str] = frozenset()

    def failed(self, what: str, reason: str) -> None:
        """Note `what` could not be done, with the `reason` unless an earlier note gave it."""
        self.note(what if reason in self._reasons else f"{what}: {reason}")
        self._reasons |= {reason}

    def waiting_for_lock(self, held: Locked, left_s: float) -> None:
        """Somebody else has the lease; it is waited for up to `left_s` seconds; 0: that is over.

        Said again each `TELL_EVERY_S`.
        """

    def waiting_for_limit(self, action: str, left: int, total: int, waited_s: float) -> None:
        """`left` of `total` requests of `action` wait for the platform's rate limit; 0: none does any more.

        Only the longest line is named. `waited_s`: for how long there has been one.
        """

    def step_started(self, step: Step) -> None:
        """The call of `step` is about to be sent."""

    def step_waiting(self, step: Step, seen: str, waited_s: float) -> None:
        """The call is done; the wait after it last read `seen`."""

    def asked_to_wait(self, step: Step, wait_s: float) -> None:
        """The call of `step` was refused as one too many (429), and is tried again in `wait_s` seconds.

        Repeated every `TELL_EVERY_S`, with the remaining seconds.
        """

    def sent_again(self, step: Step, wait_s: float) -> None:
        """The answer to the call of `step` was lost; it is sent again in `wait_s` seconds. Repeated, too."""

    def step_finished(self, step: Step, outcome: str, elapsed_s: float, detail: str) -> None:
        """`outcome` is done, pending, unknown, failed or skipped; `detail` an id or an error text."""

    def settling(self, address: Address, wait_s: float) -> None:
        """An unknown outcome is settled from evidence in `wait_s` seconds; 0: settled. Repeated, too."""
