"""What a refused new name offers: entries and commands that can be taken as they stand."""

import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from reconciler.core.diagnostics import Diagnostic
from reconciler.core.model import Address
from reconciler.policies.moved import MovedSpec
from tests.kinds.case import case_name, find_cases, play, read_case

_ENTRIES = re.compile(r"^apiVersion:.*?^spec: [^\n]*$(?!\n---)", re.MULTILINE | re.DOTALL)

CASES = [path for path in find_cases() if path.parent.name == "renames"]
each_case = pytest.mark.parametrize("path", CASES, ids=case_name)


def told_of_names(path: Path, folder: Path, more: str = "") -> Iterator[Diagnostic]:
    case = read_case(path)
    folder.mkdir()
    played = play({**case, "manifests": case["manifests"] + more}, folder)
    return (each for each in played.diagnostics if each.code in ("renamed", "perhaps-renamed"))


def entries(told: Diagnostic) -> str:
    found = _ENTRIES.search(told.help)
    return f"---\n{found[0]}\n" if found is not None else ""


@each_case
def test_the_entries_that_are_offered_are_manifests_after_which_nothing_is_asked(
    path: Path, tmp_path: Path
) -> None:
    offered = [text for told in told_of_names(path, tmp_path / "one") if (text := entries(told))]
    for document in yaml.safe_load_all("".join(offered)):
        spec = MovedSpec.model_validate(document["spec"])
        assert {spec.source, spec.target} == {Address.parse(spec.from_), Address.parse(spec.to)}
    if offered:
        assert not any(map(entries, told_of_names(path, tmp_path / "two", "".join(offered))))


@each_case
def test_commands_and_snippets_that_are_offered_name_addresses(path: Path, tmp_path: Path) -> None:
    for told in told_of_names(path, tmp_path / "one"):
        for command in re.findall(r"`reconcile ([^`]+)`", textwrap.dedent(told.help)):
            words = [word for word in shlex.split(command) if "/" in word]
            assert not [word for word in words if re.search(r"[\[\]]", word) and word in command.split()]
            assert all(map(Address.parse, words))
        for snippet in re.findall(r"`(spec: [^`]+)`", told.help):
            MovedSpec.model_validate(yaml.safe_load(snippet)["spec"])
