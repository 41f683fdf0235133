"""Extension providers: where one is, and the secrets that calls to it are signed with. They own nothing.

Source: platform API, 4.5 and 5.2; platform notes, "Extension providers".
"""

from collections.abc import Callable, Iterable
from pathlib import PurePosixPath
from typing import Literal
from urllib.parse import unquote, urlsplit

from pydantic import Field as Describe

from reconciler.diagnostics import Diagnostic, Span, error
from reconciler.kinds.base import Kind, Moves, Spec, Subject
from reconciler.model import Action, Resource
from reconciler.steps import SecretRef

_CONTROL = r"\x00-\x1f\x7f"
ID = "{id}"  # stands in `costs_path` for the extension's id


class KeySource(Spec):
    """Where a signing secret comes from: exactly one of these."""

    env: str | None = Describe(
        None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="Name of an environment variable."
    )
    file: str | None = Describe(
        None,
        min_length=1,
        pattern=rf"^[^{_CONTROL}]*$",
        description="Path of a file, relative to the manifest's directory.",
    )


class ExtensionProviderSpec(Spec):
    base_url: str = Describe(
        pattern=rf"^https?://[^\s/\\?#@{_CONTROL}]+(/[^\s\\?#@{_CONTROL}]*)?$",
        description="Address of the provider's API; https, except on loopback.",
    )
    signing_secret_from: KeySource = Describe(description="Where the provisioning signing secret comes from.")
    webhook_secret_from: KeySource | None = Describe(
        None, description="Where the secret comes from that the provider signs its webhooks with."
    )
    signature_encoding: Literal["hex", "base64"] = Describe("hex", description="Of signatures sent to it.")
    webhook_encoding: Literal["hex", "base64"] = Describe("hex", description="Of signatures of its webhooks.")
    costs_path: str | None = Describe(
        None,
        pattern=rf"^/[^\s\\#{_CONTROL}]*$",
        description=f"Path of its billing API below `base_url`; {ID} stands for the extension's id.",
    )


class ExtensionProviderKind(Kind):
    name = "ExtensionProvider"
    Spec = ExtensionProviderSpec
    in_app = False
    owns_objects = False

    def check(self, spec: ExtensionProviderSpec, span: Callable[..., Span | None]) -> Iterable[Diagnostic]:
        for name in ("signing_secret_from", "webhook_secret_from"):
            source: KeySource | None = getattr(spec, name, None)
            if source is None:
                continue
            given = source.model_fields_set & KeySource.model_fields.keys()
            if len(given) != 1:
                yield error(
                    "one-of",
                    f"`{name}` names {'two sources' if given else 'no source'}",
                    span("spec", name),
                    help="give exactly one of `env` and `file`",
                )
        wrong = {"base_url": _astray(spec.base_url), "costs_path": _climbs(spec.costs_path)}
        for name, problem in wrong.items():
            if problem:
                yield error("invalid-value", f"`{name}` is not valid: {problem}", span("spec", name))
        if spec.base_url and spec.base_url.startswith("http:") and not wrong["base_url"]:
            from reconciler.transport import is_loopback  # needs anyio: only where somebody asks

            if not is_loopback(spec.base_url):
                yield error(
                    "unencrypted-provider",
                    f"`{spec.base_url}` would carry the app's secrets unencrypted",
                    span("spec", "base_url"),
                    help="use https; http is for loopback addresses only",
                )

    def secret(self, resource: Resource) -> SecretRef:
        """Of the calls to the provider."""
        source: KeySource = resource.spec.signing_secret_from
        if source.env is not None:
            return SecretRef("env", source.env)
        written_in = resource.written_in("spec", "signing_secret_from", "file")
        return SecretRef("file", str(PurePosixPath(written_in).parent / (source.file or "")))

    def create(self, subject: Subject) -> Moves:
        return Moves(Action.NOOP)


def _astray(base_url: str | None) -> str:
    """Why calls would not reach the server that a reader of `base_url` expects; empty: they would."""
    try:
        parts = urlsplit(base_url or "https://none")
        usable = bool(parts.hostname) and parts.port != 0
    except ValueError as problem:
        return str(problem)
    return _climbs(parts.path) if usable else "it names no host, or port 0"


def _climbs(path: str | None) -> str:
    """Why `path` is not what it looks like, if so: clients leave such segments out."""
    segments = unquote((path or "").partition("?")[0]).split("/")
    return "it holds a segment `.` or `..`" if {".", ".."} & set(segments) else ""


KIND = ExtensionProviderKind()
