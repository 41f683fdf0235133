"""No secret value stands anywhere, in any form: a sample of `python -m tests.reliability.canary`."""

import base64
import gzip
import hashlib
import html
import json
import quopri
import zlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote
from xml.sax.saxutils import escape

import pytest

from tests.cli.harness import Sandbox
from tests.reliability.canary.forms import FORMS, Scanner
from tests.reliability.canary.runs import (
    ENV,
    VALUES,
    Workshop,
    platform_leaks,
    repository_leaks,
    serving,
    workshop,
)
from tests.reliability.canary.scenarios import SCENARIOS
from tests.reliability.canary.victim import LEAKS
from tests.services.calls import TOKEN as RECORDED_TOKEN
from tests.services.calls import VALUE as RECORDED_VALUE

VALUE = ENV
RAW = VALUE.encode()
AROUND = b'{"level": "info", "message": "%s", "path": "/v1/apps/shop/secrets/PASSWORD"}\n'

# What a leak in each form looks like, told by other means than the scanner's own.
PLANTED = {
    "raw": RAW,
    "base64": base64.b64encode(b"user:" + RAW + b"@host"),
    "base64url": base64.urlsafe_b64encode(b"Basic " + RAW),
    "hex": RAW.hex().encode(),
    "HEX": RAW.hex(" ").upper().replace(" ", "").encode(),
    "url": quote(VALUE, safe="").encode(),
    "json": json.dumps(VALUE).encode(),
    "unicode-escapes": "".join(f"\\u{ord(character):04x}" for character in VALUE).encode(),
    "reversed": VALUE[::-1].encode(),
    "sha256": hashlib.sha256(RAW).hexdigest().encode(),
    "md5": hashlib.md5(RAW).hexdigest().encode(),
    "quoted-printable": quopri.encodestring(RAW, quotetabs=True),
    "utf-16": VALUE.encode("utf-16"),
    "split": b"\n    ".join(RAW[at : at + 7] for at in range(0, len(RAW), 7)),
    "entities": b"<td>" + "".join(f"&#{ord(each)};" for each in VALUE).encode() + b"</td>",
    "compressed": gzip.compress(b"a" * 100 + RAW),
}


LEAKED_TO = {
    "log": "stderr",
    "file": "debug.json",
    "temporary": "notes.removed",
    "argv": "argv",
    "exception": "stderr",
}


@pytest.fixture(scope="module")
def scanner() -> Scanner:
    return Scanner(VALUES)


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with serving(tmp_path_factory.mktemp("platform")) as platform:
        yield platform


@pytest.fixture
def shop(platform: Sandbox, scanner: Scanner) -> Iterator[Workshop]:
    with workshop(platform, scanner) as shop:
        yield shop


@pytest.mark.parametrize("form", FORMS)
def test_a_leak_in_each_form_is_found(scanner: Scanner, form: str) -> None:
    found = scanner.leaks(b"x" * 1000 + AROUND.replace(b"%s", PLANTED[form]) + b"y" * 1000)
    assert (form, "the variable") in {(leak.form, leak.value) for leak in found}


@pytest.mark.parametrize("before", range(3))
@pytest.mark.parametrize("after", range(3))
def test_base64_is_found_wherever_the_value_begins(scanner: Scanner, before: int, after: int) -> None:
    encoded = base64.b64encode(b"x" * before + RAW + b"y" * after)
    assert {leak.form for leak in scanner.leaks(encoded.rstrip(b"="))} >= {"base64"}


@pytest.mark.parametrize(
    "data",
    [
        base64.encodebytes(b"x" * 50 + RAW),
        zlib.compress(gzip.compress(base64.b64encode(RAW))),
        b"\0" * 500 + zlib.compress(RAW)[:-4],
        RAW[: len(RAW) // 2] + "…".encode(),
        hashlib.sha256(RAW + b"\n").digest(),
        base64.b64encode(hashlib.sha256(RAW).digest()),
        html.escape(json.dumps(VALUE)).encode(),
        escape(VALUE, {'"': "&quot;"}).encode(),
    ],
    ids=[
        "wrapped",
        "compressed twice",
        "cut off",
        "shortened",
        "digest with a line break",
        "digest in base64",
        "JSON in HTML",
        "XML",
    ],
)
def test_a_form_within_a_form_is_found(scanner: Scanner, data: bytes) -> None:
    assert scanner.leaks(data)


def test_what_holds_no_value_is_no_leak(scanner: Scanner) -> None:
    assert scanner.leaks(AROUND * 1000 + gzip.compress(AROUND) + hashlib.sha256(b"other").digest()) == []


def test_the_recordings_and_documents_hold_no_value() -> None:
    assert (
        repository_leaks(Scanner({**VALUES, "recorded": RECORDED_VALUE, "its token": RECORDED_TOKEN})) == []
    )


@pytest.mark.parametrize("leak", LEAKS)
def test_a_run_that_leaks_is_found_out(shop: Workshop, leak: str) -> None:
    run = shop.verb("-v", "plan", env={"CANARY_LEAK": leak})
    assert any(LEAKED_TO[leak] in where for where, _ in run.leaks), run.err


@pytest.mark.parametrize(
    "name",
    [
        "nobody approves",
        "422 repeats the value",
        "somebody is notified",
        "the answer is cut off",
        "it is killed",
        "values stand beside manifests",
        "every source is used",
        "every format shows it",
        "a bug strikes in send",
    ],
)
def test_no_value_leaks(shop: Workshop, name: str) -> None:
    SCENARIOS[name](shop)
    assert shop.runs
    assert [(run.name, *leak) for run in shop.runs for leak in run.leaks] == []


def test_the_platform_keeps_keyed_digests_only(tmp_path: Path, scanner: Scanner) -> None:
    with serving(tmp_path) as platform:
        with workshop(platform, scanner) as shop:
            assert shop.verb("apply", "--auto-approve").code == 0
        assert b"hmac-sha256:" in (tmp_path / "sandbox.db-wal").read_bytes()
        assert platform_leaks(tmp_path, scanner) == []
