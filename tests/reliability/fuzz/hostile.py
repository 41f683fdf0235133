"""What no manifest should hold, and some holds one day."""

from typing import Any

# Written as they stand, where a value is due.
RAW_VALUES: tuple[str, ...] = (
    *("no", "on", "Off", "y", "~", "null", "NULL", "True", "017", "0o17", "0x1F", "0b11", "1_000", "1:30"),
    *("190:20:30", "+12", "-0", "1e3", "1e400", "-1e400", ".inf", "-.Inf", ".nan", ".5", "5.", "9" * 400),
    *("99999999999999999999", "-9223372036854775809", "2001-01-01", "2001-12-14t21:59:43.10-05:00", "="),
    "<<",
    *("!!str x", "!!binary aGk=", "!!python/object:os.system {}", "!local [1]", "! x", "!!set {a, b}"),
    *("&anchor x", "*anchor", "*nobody", "&loop [*loop]", "&loop {a: *loop}", "&a &b x", "*", "&"),
    *("[", "]", "{", "}", "[[[[[[]]]]]]", "[" * 70 + "]" * 70, "{a: " * 70 + "x" + "}" * 70, "[,]", "{,}"),
    "{:}",
    *("@at", "`tick`", "%percent", "|", ">", "|2-\n      x", ">+\n\n", "? x", "- x", "-", ":", ": x"),
    "a: b: c",
    *("# only a comment", "'", '"', "'it''s'", '"\\x00"', '"\\ud800"', '"\\U0010ffff"', '"\\q"'),
    *('"a\\\n  b"', "''"),
    *("${env:PASSWORD}", "${", "$${", '"${env:}"', '"${Volume/shop/none:id}"', '"${a:b:c}"'),
    '"${env:A${env:B}}"',
    *("{min: 3, max: 1}", "{min: 3}", "{<<: {min: 1, max: 2}}", "{<<: [1]}", "{<<: x}", "{[a]: b}", "{1: x}"),
)

# As values of a tree, quoted as they need it.
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 60, 61, 1000, 2**31, 2**63, 2**64, -(2**63), 10**400, 0.1, 1e300),
    *("", " ", "x", "X" * 64, "X" * 5000, "data", "shop", "orders", "vol_1", "prod", "personal"),
    "reconciler/v1",
    *("Volume", "Secret", "secret", "PostgresCluster", "RetentionPolicy", "Machine", "Volume/shop/data"),
    *("..", "../../etc/passwd", "/dev/zero", "a/b", "a b", "a\tb", "a\nb", "-", "--help", "data[0]"),
    "data[1]",
    *("ä", "日本語", "e\u0301", "\u202egnp", "\u200b", "🧑‍🔧", "\ue000", "\U0010fffd", "\u017f", "İ"),
    *("\u0130stanbul", "٣"),
    *("2026-01-01T00:00:00Z", "2026-13-45", "0001-01-01T00:00:00Z", "{}", "[]", "null", "no", "010", "1e3"),
    "~",
    *("${env:PASSWORD}", "${PostgresCluster/orders:endpoints.primary.pooler.host}", "${Volume/shop/data:id}"),
    *("${PostgresCluster/none:id}", "${Secret/shop/NAME:value}", "${env:}", "${", "$${", "${}", "%s%s%n"),
    "{0}",
    *([], {}, [[]], [{}], {"": ""}, {"a": {"b": {"c": {}}}}, ["a"] * 100, {"min": 10, "max": 1}),
    *({"min": 1, "max": 10**400}, {"volume": "data"}, {"snapshot_id": "vs_1"}, {"from": "orders"}, [None]),
)

KEYS: tuple[str, ...] = (
    *("value", "value_from", "spec", "metadata", "kind", "name", "app", "apiVersion", "lifecycle", "id"),
    "labels",
    *("size_gb", "count", "from", "restore", "selector", "region", "plan", "snapshot_retention", "deletion"),
    *("env", "file", "template", "timeout_s", "snapshot_before", "compute", "data", "stringData", "password"),
    *("", " ", "<<", "~", "no", "x" * 300, "ключ", "a.b", "a b", "$ref", "__proto__", "model_config", "Name"),
)

# Dropped anywhere into a file's bytes.
PIECES: tuple[bytes, ...] = (
    *(b"\t", b"\0", b"\x1b[31m", b"\x7f", b"\x85", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf"),
    b"\xff\xfe",
    *("\u0085".encode(), "\u2028".encode(), "\ufeff".encode(), "\u202e".encode(), "\U0001f4a5".encode()),
    *(b"\r", b"\r\n", b"\n", b"\n\n", b" ", b"  ", b"\n  ", b"\n---\n", b"\n...\n", b"---", b"...", b"--- "),
    b"- ",
    *(b":", b": ", b"#", b" # ", b"'", b'"', b"[", b"]", b"{", b"}", b",", b"|", b">", b"&a ", b"*a"),
    *(b"*a : ", b"!"),
    *(b"!!str ", b"!!binary ", b"!<x> ", b"%TAG ! x\n", b"%YAML 1.2\n---\n", b"%YAML 9.9\n---\n", b"? "),
    b"<<: *a\n",
    *(b"\\", b"\\u", b"\\x0", b"\\ud800", b"${env:", b"${", b"}", b"0", b"9" * 400, b"e999", b"~", b"@"),
    b"`",
    *(b"kind: Secret\n", b"kind: Volume\n", b"apiVersion: reconciler/v1\n", b"spec:\n", b"  value: x\n"),
    *(b"=", b"&"),
    *(b"[" * 100, b"{a: " * 100, b"- " * 100, b"x" * 3000, b"a: &a [*a]\n", b"b: {<<: {<<: {<<: {}}}}\n"),
)

SETTINGS: tuple[Any, ...] = (
    {"platform": {"base_url": "http://127.0.0.1:9", "capabilities": ["extended"], "rate_limit": None}},
    {"platform": {"token_from": {"env": "TOKEN"}, "capabilities": ["postgres.list", "secrets.list"]}},
    {"state": "sqlite:.reconcile/state.db", "manifests": ["manifests", "more.yaml"]},
    {"execution": {"concurrency": 8, "settle_s": 180, "deadline_s": 30.5}, "manifests": []},
)
