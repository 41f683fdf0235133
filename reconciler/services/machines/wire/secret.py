"""App secrets as the platform sends them. Source: platform API, 2.5 and 4.3."""

from typing import ClassVar

from reconciler.core.wire import Wire


class SecretSet(Wire):
    value: str


class SecretReply(Wire):
    """`Version` is deprecated; `value` may hold the secret: drop it before anything can log it."""

    Version: int | None = None
    version: int | None = None
    created_at: str | None = None
    digest: str | None = None
    name: str | None = None
    updated_at: str | None = None
    value: str | None = None


class SecretsSet(Wire):
    """Several at once: texts by name, null for one that is to go."""

    values: dict[str, str | None]


class Secret(Wire):
    """Capability `secrets.list`."""

    shape: ClassVar = "secret"
    ids: ClassVar = ()  # a name: what manifests may name is checked there
    many_at: ClassVar = "secrets"

    name: str
    digest: str | None = None
    created_at: str | None = None
    updated_at: str | None = None

    @property
    def id(self) -> str:
        """Secrets have no id of their own: the name is unique in its app."""
        return self.name


class SecretList(Wire):
    secrets: list[Secret]


class SecretsReply(SecretList):
    """`Version` is deprecated."""

    Version: int | None = None
    version: int | None = None
