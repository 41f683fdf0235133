"""What may be an id: all that platforms and providers are known to give, and nothing that a shell reads."""

import json
import shlex
import uuid

from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.core.wire import Wire, is_id
from reconciler.services.machines.wire.machine import MachineWaited
from reconciler.services.machines.wire.volume import Volume
from reconciler.services.transport import check_path

PROPER = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,254}", fullmatch=True)


@given(st.one_of(PROPER, st.uuids().map(str), st.uuids().map(lambda one: one.hex), st.integers(0).map(str)))
@example("vol_4qlyvqz2kr0z5gzr")
@example("vs_Wv0ZpNa4mGgGt1Z")
@example("148ed726c12358")
@example("abcdefgh12345678")
@example("01ARZ3NDEKTSV4RRFFQ69G5FAV")
@example("f" * 255)
@example(str(uuid.UUID(int=0)))
def test_a_proper_id_is_one_word_of_a_shell_and_one_segment_of_a_path(id: str) -> None:
    assert is_id(id)
    assert shlex.quote(id) in (id, f"'{id}'")  # `~` is quoted in the middle of a word, too
    assert Volume(id=id, attached_machine_id=id).bad_id == ""
    check_path("GET", f"/v1/apps/shop/volumes/{id}")


@given(st.text())
@example("vol_1$(touch pwn)")
@example("../../v1?x#y")
@example("..")
@example("")
@example("-f")
@example("~root")
@example("vol_1\n")
@example("vol_\u0661")
@example("f" * 256)
def test_any_other_text_is_none(text: str) -> None:
    proper = text.isascii() and text[:1].isalnum() and 0 < len(text) < 256
    assert is_id(text) == (proper and all(char.isalnum() or char in "._~-" for char in text))


def test_only_ids_that_are_used_are_looked_at() -> None:
    assert Volume(id="vol_1", attached_machine_id="").bad_id == ""
    assert Volume(id="vol_1", attached_machine_id="a b").bad_id == "attached_machine_id"
    assert Volume(id="", attached_machine_id="a b").bad_id == "id"
    assert MachineWaited.model_validate_json(json.dumps({"ok": True, "id": "any thing"})).bad_id == ""
    assert Wire().bad_id == ""
