"""Answers as a platform, a proxy or a broken line may give them instead of the right one."""

import gzip
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Literal

from reconciler.services.transport import MAX_BODY

# extra: all that was there still is, and can be read. odd: the managed values are as they were, or missing.
# broken: no answer, or one that nobody can read. lying: it can be read, and is not true.
Kind = Literal["extra", "odd", "broken", "lying"]

HTML = b"<!DOCTYPE html><html><body><h1>It works!</h1></body></html>"
FAILURES = ("read", "protocol", "write", "timeout", "tls")  # after sending
STATUSES = (
    *(200, 201, 202, 203, 204, 206, 226, 300, 301, 302, 304, 307, 308, 400, 401, 402, 403, 404, 405, 406),
    *(407, 408, 409, 410, 411, 412, 413, 415, 418, 421, 422, 423, 424, 425, 426, 429, 431, 451, 499, 500),
    *(501, 502, 503, 504, 505, 507, 511, 520, 522, 599, 999, 100, 102),
)
UNMANAGED = (
    *("zone", "blocks", "block_size", "blocks_free", "blocks_avail", "created_at", "host_dedication_key"),
    *("fstype", "attached_apps", "storage_used_bytes", "storage_provisioned_bytes", "cpus", "memory_mb"),
    *("cpu_kind", "replicas", "digest", "size", "encrypted", "organization"),
)
KEPT = ("id", "data", "volume", "Msg", "backup", "graph_id", "needs_restart")
WORDS = (
    *("", " ", "created", "creating", "ready", "destroyed", "pending_destroy", "deleting", "deleted"),
    "failed",
    *("error", "READY", "quantum", "null", "0", "-1", "x" * 5000, "\x1b[31mred", "\u202e", "a\nb", "../.."),
    "%2e%2e",
    *("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-01-01", "yesterday", "vol_0", "data", "cache"),
    "🙈",
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 3, 5, 20, 500, 2**31, 2**63, 2**64, 10**400, 1e308, 0.5),
    *([], {}, [None], [{}], {"id": "x"}, [[]], *WORDS),
)
DATES = (
    *("Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 00 Foo 0000 99:99:99 XYZ", ""),
    "0",
    *("Thu, 01 Jan 0001 00:00:00 +2359", "Thu, 01 Jan 2026 00:00:00 -9999", "1" * 300, "\xff\xfe", "soon"),
    "-1",
    *("Thu, 01 Jan 2026 00:00:00", "2026-01-01T00:00:00Z", "Thu, 01 Jan 2026 24:00:60 GMT", ",,,", "((("),
    "::::",
)
PAUSES = ("0", "-1", "1", "5", "1e9", "9" * 400, "0x10", "NaN", "inf", " 3 ", "\xb2", "1, 2", *DATES)


@dataclass(frozen=True, slots=True)
class Given:
    """What comes over the line. `failure`: how the line breaks instead; "connect" is before sending."""

    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""
    failure: str = ""


def mutated(right: Given, kind: Kind, rng: Random) -> Given:
    """`right` as `kind` says."""
    return rng.choice(_MUTATIONS[kind])(right, rng)


def _with_header(given: Given, name: str, value: str) -> Given:
    kept = tuple(pair for pair in given.headers if pair[0] != name.encode())
    return replace(given, headers=(*kept, (name.encode(), value.encode("latin-1"))))


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _parsed(given: Given) -> Any:
    try:
        return json.loads(given.body)
    except ValueError:
        return {}


def _objects(value: Any) -> list[dict[str, Any]]:
    found = [value] if isinstance(value, dict) else []
    children = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    for child in children:
        found += _objects(child)
    return found


def _edited(given: Given, rng: Random, edit: Callable[[dict[str, Any], Random], None]) -> Given:
    value = _parsed(given)
    objects = _objects(value)
    if not objects:
        return _unknown_headers(given, rng)
    for _ in range(rng.choice((1, 1, 2, 5))):
        edit(rng.choice(objects), rng)
    return replace(given, body=_json(value))


# --- extra ---


def _unknown_fields(given: Given, rng: Random) -> Given:
    def edit(item: dict[str, Any], rng: Random) -> None:
        item[
            rng.choice(("host_status", "bytes_used", "type", "Id", "ID", "new", "__class__", "", "$ref"))
        ] = rng.choice(VALUES[:14]) if rng.random() < 0.5 else rng.choice(WORDS)

    return _edited(given, rng, edit)


def _unknown_headers(given: Given, rng: Random) -> Given:
    name = rng.choice(
        ("date", "retry-after", "x-request-id", "server", "set-cookie", "content-type", "x-\xff")
    )
    if name == "content-type":
        return _with_header(
            given, name, rng.choice(("", "text/plain", "application/json; charset=utf-16", ";;;"))
        )
    return _with_header(given, name.encode("latin-1").decode("ascii", "ignore"), rng.choice(PAUSES))


def _spaced(given: Given, rng: Random) -> Given:
    value = _parsed(given)
    written = json.dumps(value, indent=rng.choice((None, 1, 8)), ensure_ascii=rng.random() < 0.5)
    return replace(given, body=b"\r\n\t " + written.encode() + b" \n" * rng.choice((0, 1, 1000)))


def _compressed(given: Given, rng: Random) -> Given:
    if rng.random() < 0.5:
        return _with_header(replace(given, body=gzip.compress(given.body)), "content-encoding", "gzip")
    return _with_header(replace(given, body=zlib.compress(given.body)), "content-encoding", "deflate")


# --- odd ---


def _unmanaged(given: Given, rng: Random) -> Given:
    def edit(item: dict[str, Any], rng: Random) -> None:
        item[rng.choice(UNMANAGED)] = rng.choice(VALUES)

    return _edited(given, rng, edit)


def _missing(given: Given, rng: Random) -> Given:
    return _without_one(given, rng, lambda item, name: item.pop(name))


def _nulls(given: Given, rng: Random) -> Given:
    return _without_one(given, rng, lambda item, name: item.update({name: None}))


def _without_one(given: Given, rng: Random, drop: Callable[[dict[str, Any], str], object]) -> Given:
    def edit(item: dict[str, Any], rng: Random) -> None:
        names = [name for name in item if name not in KEPT]
        if names:
            drop(item, rng.choice(names))

    return _edited(given, rng, edit)


def _deep(given: Given, rng: Random) -> Given:
    def edit(item: dict[str, Any], rng: Random) -> None:
        deep: Any = "x"
        for _ in range(rng.choice((10, 100, 300))):
            deep = rng.choice(([deep], {"a": deep}))
        item["deep"] = deep

    return _edited(given, rng, edit)


def _twice_the_same(given: Given, rng: Random) -> Given:
    """Each key of the first object twice, with one value: JSON does not forbid it."""
    value = _parsed(given)
    objects = [item for item in _objects(value) if item]
    if not objects:
        return given
    inner = _json(objects[-1])
    return replace(given, body=_json(value).replace(inner, inner[:-1] + b"," + inner[1:], 1))


def _very_deep(given: Given, rng: Random) -> Given:
    depth = rng.choice((1_000, 100_000))
    deep = b"[" * depth + b"]" * depth
    return replace(given, body=given.body.replace(b"{", b'{"deep":' + deep + b",", 1))


# --- broken ---


def _cut(given: Given, rng: Random) -> Given:
    return replace(given, body=given.body.rstrip()[: rng.randrange(max(1, len(given.body.rstrip())))])


def _garbage(given: Given, rng: Random) -> Given:
    at = rng.randrange(len(given.body) + 1)
    noise = rng.choice(
        (b"\0", b"\xff\xfe", b"}", b"]", b'"', b"\xed\xa0\x80", b"<", b"NaN", rng.randbytes(9))
    )
    body = noise if rng.random() < 0.3 else b"\x00" + given.body[:at] + noise + given.body[at:]
    return replace(given, body=body)


def _other_encoding(given: Given, rng: Random) -> Given:
    text = given.body.decode("utf-8", "replace")
    return replace(given, body=text.encode(rng.choice(("utf-16", "utf-32", "utf-16-le", "cp037"))))


def _false_encoding(given: Given, rng: Random) -> Given:
    zipped = gzip.compress(given.body)
    body = rng.choice((given.body, zipped[:-5], zipped + b"more", zipped[:12], b"\x1f\x8b", _bomb()))
    return _with_header(
        replace(given, body=body), "content-encoding", rng.choice(("gzip", "br", "x-gzip", "zstd"))
    )


def _html(given: Given, rng: Random) -> Given:
    page = replace(given, body=HTML, status=rng.choice((200, 201, 404, 422, 500, 502, 503, *STATUSES)))
    return _with_header(page, "content-type", rng.choice(("text/html", "text/html; charset=utf-8", "")))


def _wrong_shape(given: Given, rng: Random) -> Given:
    value: Any = _parsed(given)
    shape = rng.choice(
        ({"wrong": value}, [[value]], [value, 1], "text", 1, None, True, [None], [1], {"data": [1]})
    )
    return replace(given, body=_json(shape))


def _error(given: Given, rng: Random) -> Given:
    status = rng.choice([status for status in STATUSES if status != given.status])
    words = rng.choice(
        ("no", "Could not find App", "unauthorized", "x" * 9000, "\x1b[2J", "failed_precondition: no")
    )
    body = rng.choice(
        (
            *(b"", b"{}", given.body, words.encode(), _json({"error": words}), _json({"message": words})),
            *(_json({"errors": {"detail": words}}), _json({"error": {"a": words}}), _json([words])),
            b"\xff" * 99,
            *(_json({"error": None, "status": 7}), _json({"status": words}), _json(words), b"null"),
            b"{" * 5_000,
        )
    )
    failed = replace(given, status=status, body=body)
    if rng.random() < 0.5:
        failed = _with_header(failed, "retry-after", rng.choice(PAUSES))
    return _with_header(failed, "date", rng.choice(DATES)) if rng.random() < 0.3 else failed


def _broken_line(given: Given, rng: Random) -> Given:
    return replace(given, failure=rng.choice(FAILURES))


def _too_large(given: Given, rng: Random) -> Given:
    if rng.random() < 0.9:  # ten megabytes take their time
        return _cut(given, rng)
    return replace(given, body=given.body + b" " * (MAX_BODY + 1 - len(given.body)))


def _bomb() -> bytes:
    return gzip.compress(b" " * 100_000)[:-8]


# --- lying ---


def _other_values(given: Given, rng: Random) -> Given:
    def edit(item: dict[str, Any], rng: Random) -> None:
        if item:
            item[rng.choice(list(item))] = rng.choice(VALUES)

    return _edited(given, rng, edit)


def _other_ids(given: Given, rng: Random) -> Given:
    def edit(item: dict[str, Any], rng: Random) -> None:
        for name in ("id", "graph_id"):
            if name in item:
                item[name] = rng.choice((*VALUES, "vol_other", f"{item[name]} ", str(item[name]).upper()))

    return _edited(given, rng, edit)


def _other_states(given: Given, rng: Random) -> Given:
    def edit(item: dict[str, Any], rng: Random) -> None:
        for name in ("state", "status", "attached_machine_id", "name", "needs_restart"):
            if name in item and rng.random() < 0.5:
                item[name] = rng.choice((*WORDS, *VALUES))

    return _edited(given, rng, edit)


def _other_list(given: Given, rng: Random) -> Given:
    value = _parsed(given)
    if not isinstance(value, list):
        return _other_ids(given, rng)
    choices = [[], value[1:], value[:-1], [*value, *value], value[::-1]]
    return replace(given, body=_json(rng.choice(choices)))


def _keys_twice(given: Given, rng: Random) -> Given:
    pair = _json(rng.choice(("id", "state", "size_gb", "name"))) + b":" + _json(rng.choice(VALUES))
    at = rng.choice((b"{", b"}"))
    put = b"{" + pair + b"," if at == b"{" else b"," + pair + b"}"
    return replace(given, body=given.body.replace(at, put, 1))


_Mutation = Callable[[Given, Random], Given]
_MUTATIONS: dict[Kind, tuple[_Mutation, ...]] = {
    "extra": (_unknown_fields, _unknown_fields, _unknown_headers, _spaced, _compressed),
    "odd": (_unmanaged, _unmanaged, _missing, _nulls, _deep, _very_deep, _twice_the_same),
    "broken": (
        *(_cut, _cut, _garbage, _other_encoding, _false_encoding, _html, _wrong_shape, _error, _error),
        _error,
        *(_broken_line, _too_large),
    ),
    "lying": (_other_values, _other_values, _other_ids, _other_states, _other_list, _keys_twice),
}
