"""Bodies: bytes changed after they were signed, and signed bytes that are no JSON object."""

import json
import unicodedata
from dataclasses import replace
from typing import Any, Literal

from tests.providers.vectors.scene import CASES, Scene, case, other_than
from tests.providers.vectors.vector import Delivery, Vector, mac

MEBIBYTE = 1024 * 1024
RAW = "5.2 rule 1; notes, Extension providers: the raw body bytes"
_Form = Literal["NFC", "NFD"]
JSON = "4, 4.5: JSON bodies; 2.7: fields of an object"


@case("body: as documented, POST")
def good_post(scene: Scene) -> Vector:
    return scene.one(scene.post(), "accepted", "signed, for this address, now, once", "5.2")


@case("body: as documented, PATCH")
def good_patch(scene: Scene) -> Vector:
    return scene.one(scene.post("PATCH"), "accepted", "signed, for this address, now, once", "5.2")


def _method(scene: Scene) -> str:
    return scene.random.choice(("POST", "PATCH"))


def _resigned(scene: Scene, delivery: Delivery, body: bytes) -> Delivery:
    return replace(delivery, body=body, signatures=(mac(scene.secret, body, scene.encoding),))


@case("body: one byte tampered")
def tampered(scene: Scene) -> Vector:
    sent = scene.post(_method(scene))
    at = scene.random.randrange(len(sent.body))
    other = (sent.body[at] + scene.random.randint(1, 255)) % 256
    body = sent.body[:at] + bytes([other]) + sent.body[at + 1 :]
    return scene.one(replace(sent, body=body), "refused", "a byte differs from what was signed", RAW)


@case("body: one byte missing")
def cut(scene: Scene) -> Vector:
    sent = scene.post(_method(scene))
    at = scene.random.randrange(len(sent.body))
    body = sent.body[:at] + sent.body[at + 1 :]
    return scene.one(replace(sent, body=body), "refused", "a byte of what was signed is missing", RAW)


@case("body: line end added after signing")
def longer(scene: Scene) -> Vector:
    sent = scene.post(_method(scene))
    tail = scene.random.choice((b"\n", b"\r\n", b" ", b"\0"))
    return scene.one(replace(sent, body=sent.body + tail), "refused", "the same JSON in other bytes", RAW)


@case("body: serialised again after signing")
def serialised_again(scene: Scene) -> Vector:
    sent = scene.post(_method(scene))
    body = json.dumps(json.loads(sent.body), indent=scene.random.randint(1, 4)).encode()
    return scene.one(replace(sent, body=body), "refused", "the same JSON in other bytes", RAW)


@case("body: keys reordered after signing")
def reordered(scene: Scene) -> Vector:
    sent = scene.post(_method(scene))
    body = json.dumps(other_than(json.loads(sent.body))).encode()
    return scene.one(replace(sent, body=body), "refused", "the same JSON in other bytes", RAW)


@case("body: unicode escapes written out after signing")
def unescaped(scene: Scene) -> Vector:
    fields = scene.fields(scene.url(), name="Zoë")
    sent = scene.with_body(json.dumps(fields).encode(), scene.url())
    body = json.dumps(fields, ensure_ascii=False).encode()
    return scene.one(replace(sent, body=body), "refused", "the same JSON in other bytes", RAW)


@case("body: byte order mark added after signing")
def mark_added(scene: Scene) -> Vector:
    sent = scene.post(_method(scene))
    return scene.one(
        replace(sent, body=b"\xef\xbb\xbf" + sent.body),
        "refused",
        "bytes were put before what was signed",
        RAW,
    )


@case("body: byte order mark signed")
def mark_signed(scene: Scene) -> Vector:
    sent = scene.post(_method(scene))
    sent = _resigned(scene, sent, b"\xef\xbb\xbf" + sent.body)
    reason = "JSON text must not begin with a byte order mark (RFC 8259, 8.1); the documents are silent"
    return scene.one(sent, "refused", reason, JSON)


@case("body: signed composed, sent decomposed")
def normalised(scene: Scene) -> Vector:
    forms: tuple[tuple[_Form, _Form], ...] = (("NFC", "NFD"), ("NFD", "NFC"))
    composed, decomposed = scene.random.choice(forms)
    fields = scene.fields(scene.url(), name=unicodedata.normalize(composed, "Zoë Ångström naïve"))
    sent = scene.with_body(json.dumps(fields, ensure_ascii=False).encode(), scene.url())
    body = unicodedata.normalize(decomposed, sent.body.decode()).encode()
    return scene.one(replace(sent, body=body), "refused", "characters look alike, bytes differ", RAW)


@case("body: decomposed as signed")
def decomposed_as_signed(scene: Scene) -> Vector:
    fields = scene.fields(scene.url(), name=unicodedata.normalize("NFD", "Zoë Ångström"))
    sent = scene.with_body(json.dumps(fields, ensure_ascii=False).encode(), scene.url())
    return scene.one(sent, "accepted", "the bytes are those that were signed, in any normal form", RAW)


@case("body: lone surrogate escaped in a name")
def surrogate_in_name(scene: Scene) -> Vector:
    half = scene.random.choice(("\ud800", "\udfff", "a\udc00b"))
    sent = scene.with_body(json.dumps(scene.fields(scene.url(), name=half)).encode(), scene.url())
    reason = "the grammar of JSON allows the escape, and the bytes are those that were signed"
    return scene.one(sent, "accepted", reason, f"{RAW}; RFC 8259, 8.2")


@case("body: lone surrogate escaped in the nonce")
def surrogate_in_nonce(scene: Scene) -> Vector:
    nonce = scene.nonce() + "\ud83d"
    sent = scene.with_body(json.dumps(scene.fields(scene.url(), nonce=nonce)).encode(), scene.url())
    reason = "unusual, signed, and fresh once"
    return scene.several((sent, sent), ("accepted", "refused"), reason, f"{RAW}; RFC 8259, 8.2")


@case("body: lone surrogate escaped in the url")
def surrogate_in_url(scene: Scene) -> Vector:
    fields = scene.fields(scene.url(), url=scene.url() + "\ud800")
    sent = scene.with_body(json.dumps(fields).encode(), scene.url())
    return scene.one(sent, "refused", "signed for another address, and no address at all", "5.2 rule 2")


@case("body: lone surrogate in raw bytes")
def raw_surrogate(scene: Scene) -> Vector:
    text = json.dumps(scene.fields(scene.url(), name="half"), ensure_ascii=False).encode()
    sent = scene.with_body(text.replace(b'"half"', b'"\xed\xa0\x80"'), scene.url())
    return scene.one(sent, "refused", "signed, but not UTF-8 (RFC 8259, 8.1)", JSON)


@case("body: invalid UTF-8, signed")
def invalid_utf8(scene: Scene) -> Vector:
    text = json.dumps(scene.fields(scene.url(), name="part"), ensure_ascii=False).encode()
    part = scene.random.choice((b"\xff", b"\xc3", b"\xc0\xaf", b"\xf5\x80\x80\x80", b"\xe9t\xe9"))
    sent = scene.with_body(text.replace(b'"part"', b'"' + part + b'"'), scene.url())
    return scene.one(sent, "refused", "signed, but not UTF-8 (RFC 8259, 8.1)", JSON)


@case("body: another encoding of characters, signed")
def other_characters(scene: Scene) -> Vector:
    encoding = scene.random.choice(("utf-16", "utf-16-le", "utf-32"))
    text = json.dumps(scene.fields(scene.url()), ensure_ascii=False)
    sent = scene.with_body(text.encode(encoding), scene.url())
    return scene.one(sent, "refused", "signed, but not UTF-8 (RFC 8259, 8.1)", JSON)


@case("body: empty, signed")
def empty(scene: Scene) -> Vector:
    sent = scene.with_body(b"", scene.url(), _method(scene))
    return scene.one(sent, "refused", "no url, time or nonce was signed", "5.2 rule 2")


@case("body: empty, with the signature of a full one")
def emptied(scene: Scene) -> Vector:
    sent = scene.post(_method(scene))
    return scene.one(replace(sent, body=b""), "refused", "nothing is left of what was signed", RAW)


@case("body: empty object, signed")
def empty_object(scene: Scene) -> Vector:
    sent = scene.with_body(b"{}", scene.url(), _method(scene))
    return scene.one(sent, "refused", "no url, time or nonce was signed", "5.2 rule 2")


@case("body: exactly 1 MiB", costly=True)
def a_mebibyte(scene: Scene) -> Vector:
    reason = "at most 1 MiB is taken; the documents name no limit, the project's is 1 MiB"
    return scene.one(_of_size(scene, MEBIBYTE), "accepted", reason, "the issue: caps (1 MiB)")


@case("body: 1 MiB + 1", costly=True)
def more_than_a_mebibyte(scene: Scene) -> Vector:
    reason = "one byte over the limit, although signed"
    return scene.one(_of_size(scene, MEBIBYTE + 1), "refused", reason, "the issue: caps (1 MiB)")


def _of_size(scene: Scene, size: int) -> Delivery:
    fields = scene.fields(scene.url(), organization_name="")
    short = json.dumps(fields).encode()
    filled = json.dumps(fields | {"organization_name": "f" * (size - len(short))}).encode()
    assert len(filled) == size
    return scene.with_body(filled, scene.url())


@case("body: nested to a depth that exhausts a parser", costly=True)
def too_deep(scene: Scene) -> Vector:
    depth = scene.random.choice((2_000, 100_000, 400_000))
    opening, closing = scene.random.choice(((b"[", b"]"), (b'{"a":', b"}")))
    depth = min(depth, 1_000_000 // (len(opening) + 1))
    inner = opening * depth + b"1" + closing * depth
    text = json.dumps(scene.fields(scene.url(), name="deep")).encode().replace(b'"deep"', inner)
    reason = "no parser needs to take it: refused as unreadable, never an error of the server"
    return scene.one(
        scene.with_body(text, scene.url()), "refused", reason, "the issue: every refusal is the same"
    )


@case("body: nested a little")
def deep_enough(scene: Scene) -> Vector:
    value: Any = "end"
    for _ in range(50):
        value = [value] if scene.random.random() < 0.5 else {"in": value}
    return scene.one(scene.post(_method(scene), more=value), "accepted", "fields may hold anything", JSON)


@case("body: unknown fields")
def unknown(scene: Scene) -> Vector:
    sent = scene.post(_method(scene), plan="large", extra={"a": [1, None, True, 1.5e300]})
    return scene.one(sent, "accepted", "more fields than documented take nothing from the signature", "5.2")


for _literal in (b"NaN", b"Infinity", b"-Infinity"):

    def not_a_number(scene: Scene, literal: bytes = _literal) -> Vector:
        text = json.dumps(scene.fields(scene.url(), weight="here")).encode().replace(b'"here"', literal)
        reason = "signed, but no JSON (RFC 8259, 6): some parsers take it, others do not"
        return scene.one(scene.with_body(text, scene.url()), "refused", reason, JSON)

    CASES[f"body: {_literal.decode()} in a field"] = not_a_number


for _name in ("url", "timestamp", "nonce", "id"):

    def twice(scene: Scene, name: str = _name) -> Vector:
        fields = scene.fields(scene.url())
        second = {"url": "https://other.example/x", "timestamp": 5, "nonce": "n2", "id": "i2"}[name]
        value = json.dumps({name: second})[1:-1]
        text = json.dumps(fields)
        text = f"{{{value}, {text[1:]}" if scene.random.random() < 0.5 else f"{text[:-1]}, {value}}}"
        reason = "parsers differ in which of two equal keys counts (RFC 8259, 4); the documents are silent"
        return scene.one(scene.with_body(text.encode(), scene.url()), "refused", reason, "5.2 rule 2")

    CASES[f"body: `{_name}` twice"] = twice


@case("body: not an object")
def not_an_object(scene: Scene) -> Vector:
    value: Any = scene.random.choice(([], "text", 5, None, True, [scene.fields(scene.url())]))
    sent = scene.with_body(json.dumps(value).encode(), scene.url(), _method(scene))
    return scene.one(sent, "refused", "signed, but no object with url, time and nonce", "5.2 rule 2")


@case("body: no JSON")
def not_json(scene: Scene) -> Vector:
    fields = scene.fields(scene.url())
    whole = json.dumps(fields)
    text = scene.random.choice(
        (
            whole[:-1],
            whole + "}",
            whole + whole,
            whole.replace('"', "'"),
            f"/* signed */ {whole}",
            whole[:-1] + ",}",
            scene.query(scene.url()),
        )
    )
    return scene.one(scene.with_body(text.encode(), scene.url()), "refused", "signed, but no JSON", JSON)


@case("body: a number of ten thousand digits")
def long_number(scene: Scene) -> Vector:
    text = json.dumps(scene.fields(scene.url(), weight="here")).encode().replace(b'"here"', b"9" * 10_000)
    reason = "beyond what parsers take; refused, never an error of the server"
    return scene.one(
        scene.with_body(text, scene.url()), "refused", reason, "the issue: every refusal is the same"
    )


for _name in ("url", "timestamp", "nonce"):

    def missing(scene: Scene, name: str = _name) -> Vector:
        sent = scene.post(_method(scene), **{name: ...})
        return scene.one(sent, "refused", f"`{name}` must be signed with it", "5.2 rule 2; 2.7")

    CASES[f"body: without `{_name}`"] = missing

    def nested(scene: Scene, name: str = _name) -> Vector:
        fields = scene.fields(scene.url())
        inner = fields.pop(name)
        sent = scene.with_body(scene.text(fields | {"signed": {name: inner}}), scene.url())
        return scene.one(sent, "refused", f"`{name}` is a field of the body itself", "5.2 rule 2; 2.7")

    CASES[f"body: `{_name}` one level down"] = nested


@case("body: parameters in the query instead of the body")
def in_query(scene: Scene) -> Vector:
    fields = scene.fields(scene.url(), url=..., nonce=..., timestamp=...)
    to = f"{scene.url()}?{scene.query(scene.url())}"
    sent = scene.with_body(scene.text(fields), to)
    return scene.one(sent, "refused", "the query of a POST is not signed", RAW)
