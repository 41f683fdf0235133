"""The control verbs take no token, so a web page in a developer's browser must not reach them.

A page's simple request needs no permission of the sandbox, and a page whose name is made to resolve to
loopback reads the answer too. What a page cannot forge is checked: Host, Origin, and the content type.
"""

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from reconciler.sandbox.exchange import Refusal

_HERE = "localhost"


def check(headers: Mapping[str, str], address: str, *, has_body: bool) -> None:
    """Raises Refusal: 403 unless Host and Origin name `address`, loopback or localhost; 415 for a body that
    is not JSON. A missing Host or Origin passes: no browser leaves them out where they matter.
    """
    host, origin = headers.get("host"), headers.get("origin")
    if host is not None and not _is_here(f"//{host}", address):
        raise _refused("Host", host, address)
    if origin is not None and not (_is_here(origin, address) and urlsplit(origin).netloc == host):
        raise _refused("Origin", origin, address)
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if has_body and media_type != "application/json":
        raise Refusal(415, "the content type of a body must be application/json (`curl --json`)")


def _is_here(url: str, address: str) -> bool:
    try:
        name = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return name in (_HERE, address) or _is_loopback(name)


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _refused(header: str, value: str, address: str) -> Refusal:
    return Refusal(
        403, f"{header} {value!r} is not this sandbox's address: call it as {address} or as {_HERE}"
    )
