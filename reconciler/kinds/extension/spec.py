"""The fields of an extension's manifest. Source: platform API, 3.4."""

from typing import Annotated, Literal

from pydantic import Field as Describe

from reconciler.kinds.manifest import TEXT_PATTERN, Spec

ConfigKey = Annotated[str, Describe(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,126}[*]?$")]
IgnoredKey = Annotated[str, Describe(pattern=r"^[A-Za-z_*][A-Za-z0-9_*]{0,126}$")]
Region = Annotated[str, Describe(min_length=1, pattern=r"^[A-Za-z0-9-]*$")]


class ExtensionSpec(Spec):
    """A resource that another service provides to an app; its answer's `config` becomes the app's secrets."""

    provider: str = Describe(description="Name of its ExtensionProvider manifest.")
    name: str | None = Describe(
        None,
        min_length=1,
        pattern=TEXT_PATTERN,
        description="Name at the provider, unique across the platform; default: metadata.name.",
        examples=["shop-db"],
    )
    organization_id: str = Describe(
        min_length=1, pattern=TEXT_PATTERN, description="Unique id of the organization."
    )
    organization_name: str = Describe(
        min_length=1, pattern=TEXT_PATTERN, description="Display name of the organization."
    )
    user_id: str = Describe(min_length=1, pattern=TEXT_PATTERN, description="Id of the provisioning user.")
    user_email: str = Describe(
        min_length=1, pattern=TEXT_PATTERN, description="Alias address that routes to that user."
    )
    user_role: Literal["admin", "member"] = Describe(description="Role of that user.")
    primary_region: str | None = Describe(
        None,
        pattern=r"^[a-z]{3}$",
        description="Three-letter region code where the app writes; for region-aware extensions.",
        examples=["ams"],
    )
    read_regions: list[Region] | None = Describe(
        None, description="Region codes of read replicas.", examples=[["fra", "iad"]]
    )
    config_keys: list[ConfigKey] | None = Describe(
        None,
        description="Which keys of the answer's `config` may become secrets of the app: names, or `PREFIX*`. "
        "If the answer has any other key, no secret is set. Default: all. Variables that change how programs "
        "run are never set.",
        examples=[["DATABASE_URL", "DB_*"]],
    )
    config_ignore: list[IgnoredKey] | None = Describe(
        None,
        description="Keys of the answer's `config` that are passed over, whatever they are: names "
        "or patterns with `*`. Default: none.",
        examples=[["DEBUG_*"]],
    )
    ip_address: str | None = Describe(
        None, min_length=1, description="IPv6 address assigned to it.", examples=["fdaa:0:1::3"]
    )
