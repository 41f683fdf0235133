"""Extension providers as services: the kept part of their answers, and the client of one.

Here this program plays the platform's role: it holds the provider's signing secret. Only known fields of an
answer are kept. The answers to POST and PATCH bring the values that become an app's secrets: the values of
`config` are kept as `Sensitive` only.

Source: platform API, 2.7, 2.8, 4.5 and 5.2; platform notes, "Extension providers".
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Unpack
from urllib.parse import unquote

from pydantic_core import to_json

from reconciler.core.clock import Clock
from reconciler.core.steps import Call, Read
from reconciler.core.wire import one
from reconciler.secrets.redaction import SECRET_FIELDS, redact
from reconciler.secrets.sensitive import Sensitive
from reconciler.services.client import Client, ClientOptions
from reconciler.services.machines.wire.extension import SETTLED_STATUSES, Extension
from reconciler.services.outcome import Outcome, Verdict, cleaned, parsed
from reconciler.services.platform import POLICY
from reconciler.services.service import Service, Signature
from reconciler.services.signing import Encoding
from reconciler.services.transport import Transport

_WITH_VALUES = ("POST", "PATCH")  # their answers hold `config`, and their refusals may repeat it
_TEXTS = ("name", "platform_app_name")
_COST_FIELDS = SECRET_FIELDS - {"value"}  # of an amount


def kept_content(read: Read, body: bytes) -> bytes:
    """The part of the answer to `read` that is kept, as JSON: of a resource, the fields of `Extension`."""
    reply = parsed(body)
    if not isinstance(reply, dict):
        return b"null"
    kept = _resource(reply, str(read.path)) if read.shape == one(Extension) else redact(reply, _COST_FIELDS)
    return to_json(kept)


def kept_outcome(outcome: Outcome, call: Call) -> Outcome:
    """`outcome` of `call` without values of secrets, so that it may be recorded and shown.

    The reply to a POST or PATCH keeps `id`, `name`, `platform_app_name`, and `config` with each value as a
    `Sensitive` (None if it is not text). An empty `config` is left out while the status is not settled: the
    values do not exist yet.
    """
    return _without_values(outcome) if call.method in _WITH_VALUES else replace(outcome, reply=None)


def _resource(reply: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The known fields, with the id from the path: no document says that the answer repeats it."""
    kept = {name: reply[name] for name in Extension.model_fields if name in reply}
    return {**kept, "id": unquote(path.rpartition("/")[2])}


def _without_values(outcome: Outcome) -> Outcome:
    """`outcome` with the known fields of its reply, and without the provider's words about a refused call."""
    if outcome.kind is Verdict.YES and isinstance(outcome.reply, dict):
        return replace(outcome, reply=_provisioned(outcome.reply, outcome.id))
    if outcome.status < 300:  # its message is ours
        return replace(outcome, reply=None)
    word = f"{outcome.refusal}; " if outcome.refusal else ""
    message = f"{word}the provider's words are not shown: they may repeat a value"
    return replace(outcome, reply=None, message=message)


def _provisioned(reply: Mapping[str, Any], id: str | None) -> dict[str, Any]:
    """The known fields of the answer to a POST or PATCH."""
    kept: dict[str, Any] = {"id": id} if id is not None else {}
    kept |= {name: cleaned(reply[name]) for name in _TEXTS if isinstance(reply.get(name), str)}
    config: Any = reply.get("config")
    early = config == {} and reply.get("status", "ready") not in SETTLED_STATUSES
    if isinstance(config, dict) and not early:
        kept["config"] = {
            key: Sensitive(value) if isinstance(value, str) else None for key, value in config.items()
        }
    return kept


def provider_service(name: str) -> Service:
    """The service of ExtensionProvider `name`. It answers as the platform does, and has no rate limit."""
    manifest = f"ExtensionProvider/{name}"
    return Service(
        name=name,
        label=f"provider {name}",
        policy=POLICY,
        content=kept_content,
        outcome=kept_outcome,
        check_access=lambda path: f"check `signing_secret_from` of {manifest}, and this machine's clock",
        check_address=f"check `base_url` of {manifest}",
        no_secret=f"the signing secret of {manifest} cannot be read here",
    )


def provider_client(
    name: str,
    transport: Transport,
    base_url: str,
    secret: Callable[[], Sensitive],
    clock: Clock,
    *,
    new_nonce: Callable[[], str],
    encoding: Encoding = "hex",
    **options: Unpack[ClientOptions],
) -> Client:
    """A client of the provisioning API of one provider; see `Signature` for the secret."""
    auth = Signature(secret, new_nonce, encoding)
    return Client(provider_service(name), auth, transport, base_url, clock, **options)
