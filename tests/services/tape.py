"""How cassettes are written and matched: scrubbed both ways, and free of anything that varies.

vcrpy filters requests only, so the responses are scrubbed here too. Of httpx it knows only httpx's own
transports, so the product's `Http1Transport` is replaced here, below the client that every call goes through.
"""

import json
import re
from typing import Any

import httpx
import vcr  # type: ignore[import-untyped]  # vcrpy has no types
from vcr.request import Request  # type: ignore[import-untyped]
from vcr.stubs.httpx_stubs import vcr_handle_async_request  # type: ignore[import-untyped]

from reconciler.core.model import SENSITIVE
from reconciler.services import http1
from reconciler.services.http1 import Http1Transport

BASE_URL = "http://localhost"

# Only these headers mean anything to the client. The rest, and the real values of two of them, vary.
_RESPONSE_HEADERS = {
    "content-type": None,
    "retry-after": None,
    "date": "Fri, 02 Jan 2026 00:00:00 GMT",
    "x-request-id": "request-recorded",
}


def _scrub_body(body: bytes | None) -> bytes | None:
    """`body` without the secret that a JSON object holds under `value`."""
    if not body:
        return body
    content = json.loads(body)
    if isinstance(content, dict) and "value" in content:
        content["value"] = SENSITIVE
    return json.dumps(content, separators=(",", ":")).encode()


def _scrub_request(request: Request) -> Request:
    uri = re.sub(r"^https?://[^/]+", BASE_URL, request.uri)
    headers = {name: text for name, text in request.headers.items() if name.lower() == "content-type"}
    return Request(request.method, uri, _scrub_body(request.body), headers)


def _scrub_response(response: dict[str, Any]) -> dict[str, Any]:
    headers = {
        name.lower(): [_RESPONSE_HEADERS[name.lower()] or text for text in texts]
        for name, texts in response["headers"].items()
        if name.lower() in _RESPONSE_HEADERS
    }
    body = {**response["body"], "string": _scrub_body(response["body"]["string"])}
    return {**response, "headers": headers, "body": body}


class _TapedTransport(Http1Transport):
    cassette: Any = None  # vcrpy makes a class of this one for each cassette

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        handle = vcr_handle_async_request(self.cassette, Http1Transport.handle_async_request, httpx)
        response: httpx.Response = await handle(self, request)
        return response


TAPE = vcr.VCR(
    custom_patches=((http1, "Http1Transport", _TapedTransport),),
    record_mode=vcr.record_mode.RecordMode.NONE,
    match_on=("method", "scheme", "host", "port", "path", "query", "body"),
    before_record_request=_scrub_request,
    before_record_response=_scrub_response,
)
