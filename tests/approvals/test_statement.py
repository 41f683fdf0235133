"""What an approval says is what was signed, to the last byte; anything else is refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.approvals.statement import Approval, parse_approval
from reconciler.core.errors import ReconcilerError
from tests.approvals.people import SAID

SIGNATURE = b"-----BEGIN SSH SIGNATURE-----\nU1NIU0lHAAAAAQ==\n-----END SSH SIGNATURE-----\n"
WRITTEN = Approval(SAID, SIGNATURE).to_bytes()


def test_what_is_written_is_read() -> None:
    found = parse_approval(WRITTEN, "x")
    assert (found.statement, found.signature, found.name) == (SAID, SIGNATURE, "x")
    assert found.to_bytes() == WRITTEN


@given(st.data())
def test_another_byte_makes_it_another_approval_or_none(data: st.DataObject) -> None:
    text = bytearray(WRITTEN)
    at = data.draw(st.integers(0, len(text) - 1))
    what = data.draw(st.sampled_from(["replaced", "removed", "doubled", "cut"]))
    if what == "replaced":
        text[at] ^= data.draw(st.integers(1, 255))
    elif what == "doubled":
        text.insert(at, text[at])
    else:
        del text[at : at + 1 if what == "removed" else None]
    try:
        found = parse_approval(bytes(text), "x")
    except ReconcilerError:
        return
    assert found.to_bytes() == bytes(text)  # so the signature is of exactly these bytes
    assert bytes(text) == WRITTEN or (found.statement, found.signature) != (SAID, SIGNATURE)


@pytest.mark.parametrize(
    "said",
    [
        {"plan": "a"},
        {"plan": "A" * 64},
        {"rehearsal": "x"},
        {"principal": "*"},
        {"principal": "-x"},
        {"principal": "a b"},
        {"reason": ""},
        {"reason": " \u3000\t"},
        {"reason": "old\x1b[2J"},
        {"reason": "old \u202efdp.exe"},
        {"reason": "old\u2028new"},
        {"reason": "x" * 501},
        {"id": "7"},
        {"expires": SAID.at},
        {"environment": 7},
    ],
)
def test_a_statement_that_nobody_would_write_is_refused(said: dict[str, Any]) -> None:
    with pytest.raises(ReconcilerError, match="is not an approval"):
        parse_approval(Approval(replace(SAID, **said), SIGNATURE).to_bytes(), "x")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff\xfe",
        WRITTEN[:-3],
        WRITTEN + b"\n",
        b" " + WRITTEN,
        SIGNATURE,
        WRITTEN.replace(b"reconcile-approval-1", b"reconcile-approval-2"),
        json.dumps(json.loads(WRITTEN.partition(b"-----")[0])).encode() + b"\n" + SIGNATURE,  # other spaces
        b"[" * 10_000 + SIGNATURE,
        b"x" * (1 << 17) + SIGNATURE,
    ],
)
def test_what_is_no_approval_is_refused(text: bytes) -> None:
    with pytest.raises(ReconcilerError, match="x is not an approval"):
        parse_approval(text, "x")


def test_another_signature_of_the_statement_is_the_same_approval() -> None:
    assert Approval(SAID, SIGNATURE).id == Approval(SAID, b"another").id
    assert Approval(SAID, SIGNATURE).id != Approval(replace(SAID, id="1" * 32), SIGNATURE).id
