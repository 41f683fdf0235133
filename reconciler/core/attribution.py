"""Who ran something, and why, as the journal stores it."""

from msgspec import Struct


class Attribution(Struct, frozen=True):
    """Each is "" where it is not known. `url`: of the CI run; `reason`: in a person's words."""

    actor: str = ""
    url: str = ""
    reason: str = ""

    def to_json(self) -> dict[str, str]:
        """The fields that a person's decision gets in the journal."""
        said = {"by": self.actor, "url": self.url, "reason": self.reason}
        return {name: value for name, value in said.items() if value}

    def __str__(self) -> str:
        """In one line, such as `ana@host (https://ci.example/1): the ticket 12`."""
        url = f" ({self.url})" if self.url else ""
        return f"{self.actor}{url}{self.reason and f': {self.reason}'}"


UNATTRIBUTED = Attribution()
