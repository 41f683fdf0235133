"""What a manifest of a secret holds."""

from pydantic import Field as Describe

from reconciler.kinds.manifest import Spec
from reconciler.kinds.source import ValueSource

NAME = r"[A-Za-z_][A-Za-z0-9_]{0,126}"
# What the platform may call a secret: one segment of a path, which its API sets no other form for.
ANY_NAME = r"[^\s./\\\x00-\x1f\x7f][^\s/\\\x00-\x1f\x7f]*"


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
        max_length=255,
        pattern=f"^{ANY_NAME}$",
        description="Name on the platform; default: metadata.name. Programs see it only if it is a valid "
        "variable name: letters, digits and `_`.",
        examples=["DATABASE_URL"],
    )
    value_from: SecretSource = Describe(description="Where the value comes from; never the value itself.")
