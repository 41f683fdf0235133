"""Bodies: bytes changed after they were signed, and signed bytes that are no JSON object."""

import json
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from tests.providers.vectors.scene import Scene, accepted, case, refused
from tests.providers.vectors.vector import Delivery

MEBIBYTE = 1024 * 1024
RAW = "5.2 rule 1; notes, Extension providers: the raw body bytes"
URL = "5.2 rule 2"
JSON = "4, 4.5: JSON bodies; 2.7: fields of an object"
GOOD = "signed, for this address, now, once"
OTHER_BYTES = "the same JSON in other bytes"
NOT_UTF8 = "signed, but not UTF-8 (RFC 8259, 8.1)"
CAPS = "the issue: caps (1 MiB)"
SAME_REFUSAL = "the issue: every refusal is the same"
_Form = Literal["NFC", "NFD"]


def _method(scene: Scene) -> str:
    return scene.random.choice(("POST", "PATCH"))


def _changed(change: Callable[[Scene, bytes], bytes]) -> Callable[[Scene], Delivery]:
    """A good request whose body is changed after it was signed."""

    def sent(scene: Scene) -> Delivery:
        good = scene.post(_method(scene))
        return replace(good, body=change(scene, good.body))

    return sent


def _signed(make: Callable[[Scene], bytes]) -> Callable[[Scene], Delivery]:
    """A signed request with the body that `make` gives."""
    return lambda scene: scene.with_body(make(scene), scene.url(), _method(scene))


def _dumped(scene: Scene, *, ensure_ascii: bool = True, **changes: Any) -> bytes:
    return json.dumps(scene.fields(scene.url(), **changes), ensure_ascii=ensure_ascii).encode()


accepted("body: as documented, POST", GOOD, "5.2")(lambda scene: scene.post())
accepted("body: as documented, PATCH", GOOD, "5.2")(lambda scene: scene.post("PATCH"))


@refused("body: one byte tampered", "a byte differs from what was signed", RAW)
@_changed
def tampered(scene: Scene, body: bytes) -> bytes:
    at = scene.random.randrange(len(body))
    return body[:at] + bytes([(body[at] + scene.random.randint(1, 255)) % 256]) + body[at + 1 :]


@refused("body: one byte missing", "a byte of what was signed is missing", RAW)
@_changed
def cut(scene: Scene, body: bytes) -> bytes:
    at = scene.random.randrange(len(body))
    return body[:at] + body[at + 1 :]


refused("body: line end added after signing", OTHER_BYTES, RAW)(
    _changed(lambda scene, body: body + scene.random.choice((b"\n", b"\r\n", b" ", b"\0")))
)
refused("body: serialised again after signing", OTHER_BYTES, RAW)(
    _changed(lambda scene, body: json.dumps(json.loads(body), indent=scene.random.randint(1, 4)).encode())
)


@refused("body: keys reordered after signing", OTHER_BYTES, RAW)
@_changed
def reordered(scene: Scene, body: bytes) -> bytes:
    fields = json.loads(body)
    first, *others = fields
    return json.dumps({name: fields[name] for name in (*others, first)}).encode()


@refused("body: unicode escapes written out after signing", OTHER_BYTES, RAW)
def unescaped(scene: Scene) -> Delivery:
    fields = scene.fields(scene.url(), name="Zoë")
    sent = scene.with_body(json.dumps(fields).encode(), scene.url())
    return replace(sent, body=json.dumps(fields, ensure_ascii=False).encode())


refused("body: byte order mark added after signing", "bytes were put before what was signed", RAW)(
    _changed(lambda scene, body: b"\xef\xbb\xbf" + body)
)
refused(
    "body: byte order mark signed",
    "JSON text must not begin with a byte order mark (RFC 8259, 8.1); the documents are silent",
    JSON,
)(_signed(lambda scene: b"\xef\xbb\xbf" + scene.text(scene.fields(scene.url()))))


@refused("body: signed composed, sent decomposed", "characters look alike, bytes differ", RAW)
def normalised(scene: Scene) -> Delivery:
    forms: tuple[tuple[_Form, _Form], ...] = (("NFC", "NFD"), ("NFD", "NFC"))
    composed, decomposed = scene.random.choice(forms)
    name = unicodedata.normalize(composed, "Zoë Ångström naïve")
    sent = scene.with_body(_dumped(scene, name=name, ensure_ascii=False), scene.url())
    return replace(sent, body=unicodedata.normalize(decomposed, sent.body.decode()).encode())


accepted("body: decomposed as signed", "the bytes are those that were signed, in any normal form", RAW)(
    _signed(lambda scene: _dumped(scene, name=unicodedata.normalize("NFD", "Zoë Ång"), ensure_ascii=False))
)
accepted(
    "body: lone surrogate escaped in a name",
    "the grammar of JSON allows the escape, and the bytes are those that were signed",
    f"{RAW}; RFC 8259, 8.2",
)(_signed(lambda scene: _dumped(scene, name=scene.random.choice(("\ud800", "\udfff", "a\udc00b")))))
case(
    "body: lone surrogate escaped in the nonce",
    ("accepted", "refused"),
    "unusual, signed, and fresh once",
    f"{RAW}; RFC 8259, 8.2",
)(lambda scene: (_signed(lambda scene: _dumped(scene, nonce=scene.nonce() + "\ud83d"))(scene),) * 2)
refused(
    "body: lone surrogate escaped in the url",
    "signed for another address, and no address at all",
    URL,
)(_signed(lambda scene: _dumped(scene, url=scene.url() + "\ud800")))
refused("body: lone surrogate in raw bytes", NOT_UTF8, JSON)(
    _signed(lambda scene: _dumped(scene, name="half").replace(b'"half"', b'"\xed\xa0\x80"'))
)


@refused("body: invalid UTF-8, signed", NOT_UTF8, JSON)
@_signed
def invalid_utf8(scene: Scene) -> bytes:
    part = scene.random.choice((b"\xff", b"\xc3", b"\xc0\xaf", b"\xf5\x80\x80\x80", b"\xe9t\xe9"))
    return _dumped(scene, name="part").replace(b'"part"', b'"' + part + b'"')


@refused("body: another encoding of characters, signed", NOT_UTF8, JSON)
@_signed
def other_characters(scene: Scene) -> bytes:
    encoding = scene.random.choice(("utf-16", "utf-16-le", "utf-32"))
    return json.dumps(scene.fields(scene.url()), ensure_ascii=False).encode(encoding)


refused("body: empty, signed", "no url, time or nonce was signed", URL)(_signed(lambda scene: b""))
refused("body: empty object, signed", "no url, time or nonce was signed", URL)(_signed(lambda scene: b"{}"))
refused("body: empty, with the signature of a full one", "nothing is left of what was signed", RAW)(
    _changed(lambda scene, body: b"")
)


def _of_size(scene: Scene, size: int) -> Delivery:
    fields = scene.fields(scene.url(), organization_name="")
    short = json.dumps(fields).encode()
    filled = json.dumps(fields | {"organization_name": "f" * (size - len(short))}).encode()
    assert len(filled) == size
    return scene.with_body(filled, scene.url())


accepted(
    "body: exactly 1 MiB",
    "at most 1 MiB is taken; the documents name no limit, the project's is 1 MiB",
    CAPS,
    costly=True,
)(lambda scene: _of_size(scene, MEBIBYTE))
refused("body: 1 MiB + 1", "one byte over the limit, although signed", CAPS, costly=True)(
    lambda scene: _of_size(scene, MEBIBYTE + 1)
)


@refused(
    "body: nested to a depth that exhausts a parser",
    "no parser needs to take it: refused as unreadable, never an error of the server",
    SAME_REFUSAL,
    costly=True,
)
@_signed
def too_deep(scene: Scene) -> bytes:
    depth = scene.random.choice((2_000, 100_000, 400_000))
    opening, closing = scene.random.choice(((b"[", b"]"), (b'{"a":', b"}")))
    depth = min(depth, 1_000_000 // (len(opening) + 1))
    return _dumped(scene, name="deep").replace(b'"deep"', opening * depth + b"1" + closing * depth)


@accepted("body: nested a little", "fields may hold anything", JSON)
def deep_enough(scene: Scene) -> Delivery:
    value: Any = "end"
    for _ in range(50):
        value = [value] if scene.random.random() < 0.5 else {"in": value}
    return scene.post(_method(scene), more=value)


accepted("body: unknown fields", "more fields than documented take nothing from the signature", "5.2")(
    lambda scene: scene.post(_method(scene), plan="large", extra={"a": [1, None, True, 1.5e300]})
)

for _literal in (b"NaN", b"Infinity", b"-Infinity"):

    @refused(
        f"body: {_literal.decode()} in a field",
        "signed, but no JSON (RFC 8259, 6): some parsers take it, others do not",
        JSON,
    )
    @_signed
    def not_a_number(scene: Scene, literal: bytes = _literal) -> bytes:
        return _dumped(scene, weight="here").replace(b'"here"', literal)


for _name in ("url", "timestamp", "nonce", "id"):

    @refused(
        f"body: `{_name}` twice",
        "parsers differ in which of two equal keys counts (RFC 8259, 4); the documents are silent",
        URL,
    )
    @_signed
    def twice(scene: Scene, name: str = _name) -> bytes:
        second = {"url": "https://other.example/x", "timestamp": 5, "nonce": "n2", "id": "i2"}[name]
        value, text = json.dumps({name: second})[1:-1], _dumped(scene).decode()
        first = scene.random.random() < 0.5
        return (f"{{{value}, {text[1:]}" if first else f"{text[:-1]}, {value}}}").encode()


@refused("body: not an object", "signed, but no object with url, time and nonce", URL)
@_signed
def not_an_object(scene: Scene) -> bytes:
    value: Any = scene.random.choice(([], "text", 5, None, True, [scene.fields(scene.url())]))
    return json.dumps(value).encode()


@refused("body: no JSON", "signed, but no JSON", JSON)
@_signed
def not_json(scene: Scene) -> bytes:
    whole = _dumped(scene).decode()
    broken = (whole[:-1], whole + "}", whole + whole, whole.replace('"', "'"), f"/* signed */ {whole}")
    return scene.random.choice((*broken, whole[:-1] + ",}", scene.query(scene.url()))).encode()


refused(
    "body: a number of ten thousand digits",
    "beyond what parsers take; refused, never an error of the server",
    SAME_REFUSAL,
)(_signed(lambda scene: _dumped(scene, weight="here").replace(b'"here"', b"9" * 10_000)))

for _name in ("url", "timestamp", "nonce"):

    @refused(f"body: without `{_name}`", f"`{_name}` must be signed with it", f"{URL}; 2.7")
    def missing(scene: Scene, name: str = _name) -> Delivery:
        return scene.post(_method(scene), **{name: ...})

    @refused(f"body: `{_name}` one level down", f"`{_name}` is a field of the body itself", f"{URL}; 2.7")
    @_signed
    def nested(scene: Scene, name: str = _name) -> bytes:
        fields = scene.fields(scene.url())
        inner = fields.pop(name)
        return scene.text(fields | {"signed": {name: inner}})


@refused("body: parameters in the query instead of the body", "the query of a POST is not signed", RAW)
def in_query(scene: Scene) -> Delivery:
    fields = scene.fields(scene.url(), url=..., nonce=..., timestamp=...)
    return scene.with_body(scene.text(fields), f"{scene.url()}?{scene.query(scene.url())}")
