"""What a manifest of a secret holds."""

from pydantic import Field as Describe

from reconciler.kinds.manifest import Spec
from reconciler.kinds.source import ValueSource

NAME = r"[A-Za-z_][A-Za-z0-9_]{0,126}"


class SecretSource(ValueSource):
    template: str | None = Describe(
        None,
        min_length=1,
        description="Text with ${env:NAME} and ${Kind/name:field.path} in it; $${ stands for ${.",
        examples=["postgres://app:${env:PW}@${PostgresCluster/orders:endpoints.primary.pooler.host}/app"],
    )


class SecretSpec(Spec):
    """A secret of an app. Its value comes from outside the manifest, and is set, never read back."""

    name: str | None = Describe(
        None,
        pattern=f"^{NAME}$",
        description="Name on the platform; default: metadata.name.",
        examples=["DATABASE_URL"],
    )
    value_from: SecretSource = Describe(description="Where the value comes from; never the value itself.")
