"""Whoever does as a message says is not refused: each advised command is run where it is advised.

Every case file, and every situation of a code's page, is laid out as a real project. What `plan` or `drift`
advises there, in any place of its report, is typed there, as a person would who knows an ID or an ADDRESS.
"""

import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from reconciler.core.model import Address
from tests.advice.laid_out import laid_out, with_an_object
from tests.explain.pages import SITUATIONS, read_page, situation
from tests.inprocess import Command, Ended
from tests.kinds.case import LivePlatform, case_name, find_cases, read_case

LATER = {
    ("planning/drift/beside_a_first_apply_nothing_is_lost", "drift"): "once another process is done",
    ("planning/moves/what_moves_is_settled_and_owed_under_its_new_address", "resolve"): "once it has moved",
    ("recorded-twice", "drift"): "once the error, which says another command, is mended",
}


def _cases() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in find_cases():
        yield case_name(path), read_case(path)
    for path in sorted(SITUATIONS.glob("*.yaml")):
        yield path.stem, {"manifests": read_page(path.stem).block("yaml"), **(situation(path.stem) or {})}


@pytest.mark.parametrize(("name", "case"), [pytest.param(*each, id=each[0]) for each in _cases()])
def test_what_is_advised_is_not_refused(
    name: str,
    case: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    targets = [word for each in case.get("targets", ()) for word in ("--target", each)]
    with laid_out(case, run := Command(tmp_path / "asked", monkeypatch, capsys)):
        said = run(shlex.join([case.get("verb", "plan"), *targets, "-o", "json"]), code=None)
    for number, words in enumerate(sorted({*advised(json.loads(said.out))})):
        if (name, words[0]) in LATER:
            continue
        there, filled_in = _as_a_person(case, words)
        with laid_out(there, run := Command(tmp_path / str(number), monkeypatch, capsys)) as platform:
            ended = run(shlex.join(filled_in), code=None)
        assert not refused(ended, platform), f"{shlex.join(filled_in)}\n{ended.err}{ended.out}"


def advised(document: Any) -> Iterator[tuple[str, ...]]:
    """The words of each command in a report, at any depth."""
    if isinstance(document, dict):
        yield from (tuple(each["argv"][1:]) for each in document.get("advice", ()))
        document = [*document.values()]
    if isinstance(document, list):
        for part in document:
            yield from advised(part)


def refused(ended: Ended, platform: LivePlatform) -> bool:
    """Not where something was sent, or accepted beside what could not be read."""
    sent = any(not each.startswith("GET ") for each in platform.unexpected)
    return ended.code not in (0, 2, 3, 4) and not sent and "\nAccepted: " not in ended.out


def _as_a_person(case: dict[str, Any], words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    known = {"ADDRESS": next(iter(case.get("records", ())), ""), "OLD": "Volume/shop/data"}
    if "ID" in words:
        case, known["ID"] = with_an_object(case, Address.parse(words[1]))
    if words[:1] == ("resolve",):
        app = Address.parse(words[1]).app
        case = {**case, "live": {f"/v1/apps/{app}/volumes": [], **case.get("live", {})}}
    return case, [known.get(word, word) for word in words]
