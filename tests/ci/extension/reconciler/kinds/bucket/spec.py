"""What a manifest of a bucket holds."""

from pydantic import Field as Describe

from reconciler.kinds.manifest import FREE_NAME, TEXT_PATTERN, Spec


class BucketSpec(Spec):
    """A bucket of an app: created once, in one region. Only its versions can be switched."""

    name: str | None = Describe(
        None, pattern=FREE_NAME, description="Name on the platform; default: metadata.name."
    )
    region: str = Describe(min_length=1, pattern=TEXT_PATTERN, description="Region code. Fixed at creation.")
    versions: bool | None = Describe(None, description="Keep old versions of objects; default false.")
