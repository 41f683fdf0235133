"""Extension providers: their addresses, and the secrets that sign calls to them. They own nothing.

Source: platform API, 4.5 and 5.2; platform notes, "Extension providers".
"""

from collections.abc import Iterable
from typing import ClassVar, Literal
from urllib.parse import unquote, urlsplit

from pydantic import Field as Describe
from pydantic import field_validator

from reconciler.core.diagnostics import Diagnostic, error
from reconciler.core.model import Resource
from reconciler.core.steps import SecretRef
from reconciler.kinds.manifest import Locate, Spec
from reconciler.kinds.roles import SendsSecret
from reconciler.kinds.source import ValueSource, check_source, source_ref
from reconciler.policies.base import Policy

_CONTROL = r"\x00-\x1f\x7f"
ID = "{id}"  # stands in `costs_path` for the extension's id


class ExtensionProviderSpec(Spec):
    """A service that provides extensions: its address, and how calls to it are signed. Owns no object."""

    base_url: str = Describe(
        pattern=rf"^https?://[^\s/\\?#@{_CONTROL}]+(/[^\s\\?#@{_CONTROL}]*)?$",
        description="Address of the provider's API; https, except on loopback.",
    )
    signing_secret_from: ValueSource = Describe(
        description="Where the provisioning signing secret comes from."
    )
    webhook_secret_from: ValueSource | None = Describe(
        None,
        description="Where the secret comes from with which the provider signs its webhooks.",
        examples=[{"env": "DB_PROVIDER_WEBHOOK_SECRET"}],
    )
    signature_encoding: Literal["hex", "base64"] = Describe(
        "hex", description="Encoding of the signatures sent to it."
    )
    webhook_encoding: Literal["hex", "base64"] = Describe(
        "hex", description="Encoding of its webhooks' signatures."
    )
    costs_path: str | None = Describe(
        None,
        pattern=rf"^/[^\s\\#{_CONTROL}]*$",
        description=f"Path of its billing API below `base_url`; {ID} stands for the extension's id.",
        examples=[f"/extensions/{ID}/costs"],
    )

    @field_validator("base_url")
    @classmethod
    def _without_slash(cls, base_url: str) -> str:
        """A slash at the end does not make another address."""
        return base_url.rstrip("/")


class ExtensionProvider(SendsSecret, Policy):
    """Providers of extensions: calls go to their addresses, signed with their secrets."""

    name = "ExtensionProvider"
    Spec = ExtensionProviderSpec
    in_app = False
    example: ClassVar = {
        "base_url": "https://db.example.com/v1",
        "signing_secret_from": {"env": "DB_PROVIDER_SECRET"},
    }

    def check(self, spec: ExtensionProviderSpec, span: Locate) -> Iterable[Diagnostic]:
        for name in ("signing_secret_from", "webhook_secret_from"):
            source: ValueSource | None = getattr(spec, name, None)
            if source is not None:
                yield from check_source(source, ("spec", name), span)
        wrong = {"base_url": _astray(spec.base_url), "costs_path": _climbs(spec.costs_path)}
        for name, problem in wrong.items():
            if problem:
                yield error("invalid-value", f"`{name}` is not valid: {problem}", span("spec", name))
        if spec.base_url and spec.base_url.startswith("http:") and not wrong["base_url"]:
            from reconciler.services.transport import is_loopback  # needs anyio: only where somebody asks

            if not is_loopback(spec.base_url):
                yield error(
                    "unencrypted-provider",
                    f"`{spec.base_url}` would carry the app's secrets unencrypted",
                    span("spec", "base_url"),
                    help="use https; http is for loopback addresses only",
                )

    def secret(self, resource: Resource) -> SecretRef:
        """Return the secret that signs calls to the provider."""
        source: ValueSource = resource.spec.signing_secret_from
        return source_ref(source, resource.written_in("spec", "signing_secret_from", *source.place))

    def webhook_secret(self, resource: Resource) -> SecretRef | None:
        """Return the secret that signs the provider's webhooks; None: the manifest names none."""
        source: ValueSource | None = resource.spec.webhook_secret_from
        if source is None:
            return None
        return source_ref(source, resource.written_in("spec", "webhook_secret_from", *source.place))


def _astray(base_url: str | None) -> str:
    """Return why calls would not reach the server that a reader of `base_url` expects; "": they would."""
    try:
        parts = urlsplit(base_url or "https://none")
        usable = bool(parts.hostname) and parts.port != 0
    except ValueError as problem:
        return str(problem)
    return _climbs(parts.path) if usable else "it has no host, or port 0"


def _climbs(path: str | None) -> str:
    """Return why `path` misleads its readers, if so: clients remove some segments."""
    segments = unquote((path or "").partition("?")[0]).split("/")
    return "it holds a segment `.` or `..`" if {".", ".."} & set(segments) else ""


KIND = ExtensionProvider()
