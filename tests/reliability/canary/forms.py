"""A secret value in the forms in which it may leak, and where any of them stands in some bytes."""

import base64
import hashlib
import html
import json
import quopri
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote, quote_plus

_WHITE = b" \t\r\n"
_ZIPPED = (b"\x1f\x8b\x08", b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
_REFERENCE = re.compile(rb"&(?:#\d+|#[xX][0-9a-fA-F]+|[a-z]+);")
_MOST_UNPACKED = 8 << 20
_DEEPEST = 3
_SHORTEST = 6  # bytes: anything shorter is found by chance


@dataclass(frozen=True, slots=True)
class Leak:
    """`form`: how it stands there; `value`: the name of the value; `at`: the byte where it begins."""

    form: str
    value: str
    at: int


def _raw(value: bytes) -> Iterator[bytes]:
    """As it is, and either half of it: what is shortened is told all the same."""
    yield value
    half = len(value) // 2
    if half >= 2 * _SHORTEST:
        yield value[:half]
        yield value[half:]


def _in_base64(encode: Callable[[bytes], bytes]) -> Callable[[bytes], Iterator[bytes]]:
    def forms(value: bytes) -> Iterator[bytes]:
        """Wherever it begins in what was encoded: what its neighbours change is left out."""
        for before in range(3):
            encoded = encode(b"\0" * before + value).rstrip(b"=")
            first = (0, 2, 3)[before]
            last = len(encoded) - (1 if (before + len(value)) % 3 else 0)
            yield encoded[first:last]

    return forms


def _hex_lower(value: bytes) -> Iterator[bytes]:
    yield value.hex().encode()


def _hex_upper(value: bytes) -> Iterator[bytes]:
    yield value.hex().upper().encode()


def _url(value: bytes) -> Iterator[bytes]:
    for safe in ("", "/", "-._~!$&'()*+,;=:@/?"):
        encoded = quote(value, safe=safe)
        yield encoded.encode()
        yield _lower_escapes(encoded).encode()
    yield quote_plus(value).encode()
    yield "".join(f"%{byte:02X}" for byte in value).encode()


def _lower_escapes(text: str) -> str:
    parts = text.split("%")
    return "%".join([parts[0], *(part[:2].lower() + part[2:] for part in parts[1:])])


def _json(value: bytes) -> Iterator[bytes]:
    text = value.decode()
    for ascii_only in (True, False):
        once = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        yield once.encode()
        yield json.dumps(once, ensure_ascii=ascii_only)[1:-1].encode()  # JSON in JSON, and Python's repr
    yield repr(text)[1:-1].encode()
    yield ascii(text)[1:-1].encode()
    yield repr(value)[2:-1].encode()


def _unicode_escapes(value: bytes) -> Iterator[bytes]:
    units = value.decode().encode("utf-16-be")
    escaped = "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
    yield escaped.encode()
    yield escaped.upper().replace("\\U", "\\u").encode()


def _reversed(value: bytes) -> Iterator[bytes]:
    yield value.decode()[::-1].encode()


def _digests(name: str) -> Callable[[bytes], Iterator[bytes]]:
    def forms(value: bytes) -> Iterator[bytes]:
        """In hex, in base64 and as it is; of the value alone, and with the line break that `echo` adds."""
        for text in (value, value + b"\n"):
            digest = hashlib.new(name, text).digest()
            yield digest.hex().encode()
            yield digest.hex().upper().encode()
            yield base64.b64encode(digest).rstrip(b"=")
            yield digest

    return forms


def _quoted_printable(value: bytes) -> Iterator[bytes]:
    yield quopri.encodestring(value, quotetabs=True).replace(b"=\n", b"")


def _utf16(value: bytes) -> Iterator[bytes]:
    yield value.decode().encode("utf-16-le")
    yield value.decode().encode("utf-16-be")


_FORMS: Mapping[str, Callable[[bytes], Iterator[bytes]]] = {
    "raw": _raw,
    "base64": _in_base64(base64.b64encode),
    "base64url": _in_base64(base64.urlsafe_b64encode),
    "hex": _hex_lower,
    "HEX": _hex_upper,
    "url": _url,
    "json": _json,
    "unicode-escapes": _unicode_escapes,
    "reversed": _reversed,
    "sha256": _digests("sha256"),
    "md5": _digests("md5"),
    "quoted-printable": _quoted_printable,
    "utf-16": _utf16,
}

# `split`: any of these with line breaks or spaces in it. `entities`: any of these as HTML or XML spells it.
# `compressed`: any of these in a gzip or zlib stream.
FORMS = (*_FORMS, "split", "entities", "compressed")


class Scanner:
    """Looks for `values` (name → value). Values need `_SHORTEST` bytes."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._needles: dict[bytes, tuple[str, str]] = {}
        for name, value in values.items():
            assert len(value.encode()) >= _SHORTEST, name
            for form, needles_of in _FORMS.items():
                for needle in needles_of(value.encode()):
                    self._needles.setdefault(needle, (form, name))
        self._without_white = {
            needle.translate(None, _WHITE): found for needle, found in self._needles.items()
        }

    def leaks(self, data: bytes) -> list[Leak]:
        """One for each form of each value that stands in `data`, the first place of each."""
        return sorted(set(self._found(data, _DEEPEST)), key=lambda leak: (leak.at, leak.form, leak.value))

    def _found(self, data: bytes, depth: int) -> Iterator[Leak]:
        seen: set[tuple[str, str]] = set()
        for needle, found in self._needles.items():
            at = data.find(needle)
            if at >= 0 and found not in seen:
                seen.add(found)
                yield Leak(*found, at)
        dense = data.translate(None, _WHITE)
        if len(dense) < len(data):
            for needle, found in self._without_white.items():
                if found not in seen and needle in dense:
                    yield Leak("split", found[1], 0)
        if _REFERENCE.search(data):
            said = html.unescape(data.decode("utf-8", "replace")).encode("utf-8", "replace")
            for needle, found in self._needles.items():
                if found not in seen and needle in said:
                    yield Leak("entities", found[1], 0)
        if depth:
            for at in _zipped_places(data):
                inside = _unpacked(data[at:])
                for leak in self._found(inside, depth - 1):
                    yield Leak("compressed", leak.value, at)


def _zipped_places(data: bytes) -> Iterator[int]:
    for magic in _ZIPPED:
        at = data.find(magic)
        while at >= 0:
            yield at
            at = data.find(magic, at + 1)


def _unpacked(data: bytes) -> bytes:
    """What can be unpacked of `data`, which may only look like a stream, or be cut off."""
    unzip = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    unpacked = b""
    try:
        for at in range(0, len(data), 4096):
            unpacked += unzip.decompress(data[at : at + 4096], _MOST_UNPACKED)
            if unzip.eof or len(unpacked) >= _MOST_UNPACKED:
                break
    except zlib.error:
        pass
    return unpacked
