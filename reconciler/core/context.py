"""The facts at the beginning of every report, and who ran the command that a report is about.

Later reports and approvals sign the shape of `Context`, so it stays as it is.
"""

from datetime import datetime
from functools import cache
from importlib.metadata import version
from typing import NamedTuple
from urllib.parse import urlsplit

from msgspec import Struct

from reconciler.core.saved import Saved

BASE = "base"  # a name that no environment can have: the manifests without an overlay, and their state
EMBEDDED = "sandbox"  # the platform of --sandbox, whose address is another one each time


@cache
def program_version() -> str:
    """Return the version of the installed package."""
    return version("reconciler")


class Origin(NamedTuple):
    """Where the manifests come from. `revision`: the full id of the git commit; None where git knows none.

    `dirty`: whether manifests, overlays or settings are not as that commit holds them; None without one.
    """

    revision: str | None = None
    dirty: bool | None = None


UNKNOWN_ORIGIN = Origin()


class Context(Saved, frozen=True):
    """Which environment, platform and state a report is about, and which manifests. JSON has the same names.

    `platform`: its address; None where none is configured. `state`: its URL, without credentials.
    `lineage`: of the state; None if the state does not exist yet. `revision`, `dirty`: see `Origin`.
    `version`: of this program. `at`: the moment.
    """

    environment: str
    platform: str | None
    state: str
    lineage: str | None
    revision: str | None
    dirty: bool | None
    version: str
    at: datetime

    @property
    def word(self) -> str:
        """What an approval of a create names besides its address: the beginning of the state's lineage."""
        return (self.lineage or "")[:8]


def make_context(
    environment: str, platform: str | None, state_url: str, origin: Origin, lineage: str, at: datetime
) -> Context:
    """`environment`: "" for none. `state_url`: as `shown_url` has it. `lineage`: "" for no state yet."""
    return Context(
        environment=environment or BASE,
        platform=platform,
        state=state_url,
        lineage=lineage or None,
        revision=origin.revision,
        dirty=origin.dirty,
        version=program_version(),
        at=at,
    )


def without_credentials(url: str) -> str:
    """Scheme, host and path of `url`: a user, a password and options are left out."""
    if url.startswith("sqlite:"):
        return url
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


class Attribution(Struct, frozen=True):
    """Who ran something, and why, as the journal stores it. Fields that are not known are "".

    `url`: of the CI run; `reason`: in a person's words.
    """

    actor: str = ""
    url: str = ""
    reason: str = ""

    def to_json(self) -> dict[str, str]:
        """Return the fields that a person's decision gets in the journal."""
        said = {"by": self.actor, "url": self.url, "reason": self.reason}
        return {name: value for name, value in said.items() if value}

    def __str__(self) -> str:
        """Return one line, such as `ana@host (https://ci.example/1): the ticket 12`."""
        url = f" ({self.url})" if self.url else ""
        return f"{self.actor}{url}{self.reason and f': {self.reason}'}"


UNATTRIBUTED = Attribution()
