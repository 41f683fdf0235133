"""Manifests to fill in: valid as they are, and with each comment taken away."""

import re
from pathlib import Path

import pytest

from reconciler.core.diagnostics import Severity
from reconciler.kinds.base import Kind
from reconciler.manifests.authoring.skeleton import skeleton
from reconciler.manifests.load import load
from reconciler.manifests.validation.envelope import manifest_model
from reconciler.manifests.validation.problems import field_names
from reconciler.manifests.writing.write import SCHEMA_FILE, modeline
from reconciler.policies import find_manifest_kinds

KINDS = find_manifest_kinds()
OTHERS = (  # what a manifest of another kind refers to
    skeleton(KINDS["ExtensionProvider"], name="PROVIDER", app="shop")
    + "---\n"
    + skeleton(KINDS["Volume"], name="TO", app="shop")
    + "---\n"
    + skeleton(KINDS["Volume"], name="OF", app="shop")
)

# What fields that are valid each may still say of each other, or of what is not there.
ACROSS_FIELDS = {"one-of", "not-with-restore", "missing-field", "invalid-value"}
ELSEWHERE = {"unknown-reference", "unused-policy", "move-undeclared"}

FIELD = re.compile(r"^ *(?:# )?(?P<indent> *)(?P<key>[A-Za-z_]+):", re.MULTILINE)


def codes(text: str) -> set[str]:
    loaded = load(["-"], root=Path("/"), stdin=text.encode)
    return {item.code for item in loaded.diagnostics}


def made(kind: str) -> str:
    return skeleton(KINDS[kind], name="data", app="shop")


def uncommented(text: str, number: int) -> str | None:
    """`text` with its `number`th optional field, and all that is in it; None when there are fewer."""
    lines = text.splitlines()
    starts = [at for at, line in enumerate(lines) if re.match(r" *# [A-Za-z_]+:( [^ ]+)?$", line)]
    starts = [at for at in starts if not re.match(r" *# [A-Za-z_]+: .* ", lines[at])]
    if number >= len(starts):
        return None
    at = starts[number]
    margin = lines[at].index("#")
    while at < len(lines) and lines[at].startswith(" " * margin + "#"):
        rest = lines[at][margin + 2 :]
        if at > starts[number] and not rest.startswith(" "):
            break
        lines[at] = " " * margin + rest
        at += 1
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_manifest_is_valid_as_it_is(kind: str) -> None:
    assert codes(made(kind)) <= ELSEWHERE
    assert codes(f"{OTHERS}---\n{made(kind)}") <= {"unused-policy"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_the_model_stands_in_it_once(kind: str) -> None:
    model = manifest_model(KINDS[kind])
    text = made(kind)
    for block in (each for each in ("metadata", "spec", "lifecycle") if each in model.model_fields):
        for name in field_names(model, (block,)):
            assert len(re.findall(rf"^(?:  |  # |#   ){name}:", text, re.MULTILINE)) >= 1, name


@pytest.mark.parametrize("kind", KINDS)
def test_each_comment_taken_away_leaves_fields_with_valid_values(kind: str) -> None:
    number = 0
    while (text := uncommented(made(kind), number)) is not None:
        assert text != made(kind)
        assert codes(text) <= ACROSS_FIELDS | ELSEWHERE, text
        number += 1
    assert number >= 1


def test_required_fields_say_what_they_are_for() -> None:
    text = made("PostgresCluster")
    assert "  # Region code of the primary.\n  region: REGION\n" in text
    assert "One of basic, starter, launch, scale," in text
    assert '  # pg_major_version: "16"\n' in text
    assert "10 to 1000." in text


def test_addresses_and_ignores_stand_there_as_they_are_written() -> None:
    assert re.search(r"^  from: Volume/shop/FROM$", made("Moved"), re.MULTILINE)
    assert "lifecycle" not in made("Moved")
    entry = made("Volume").partition("#   ignore:\n")[2]
    lines = [line for line in entry.splitlines() if not re.match("# +#", line)]
    assert lines == ["#     - field: size_gb", "#       reason: REASON", '#       until: "2026-12-31"']


def test_rules_across_fields_decide_what_stands_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.search(r"^    env: ", made("Secret"), re.MULTILINE)
    monkeypatch.setattr(type(KINDS["Secret"]), "check", Kind.check)
    assert re.search(r"^    env: ", made("Secret"), re.MULTILINE), "a mapping is not left empty"
    monkeypatch.setattr(type(KINDS["PostgresCluster"]), "check", Kind.check)
    assert not re.search(r"^  region: ", made("PostgresCluster"), re.MULTILINE)


def test_the_modeline_leads_from_the_file_to_the_schema(tmp_path: Path) -> None:
    assert modeline(tmp_path, tmp_path) == f"yaml-language-server: $schema={SCHEMA_FILE}"
    below = modeline(tmp_path / "manifests" / "shop", tmp_path)
    assert below == f"yaml-language-server: $schema=../../{SCHEMA_FILE}"


def test_the_modeline_is_no_part_of_the_manifest(tmp_path: Path) -> None:
    text = f"# {modeline(tmp_path, tmp_path)}\n" + made("Volume")
    loaded = load(["-"], root=tmp_path, stdin=text.encode)
    assert not [item for item in loaded.diagnostics if item.severity is Severity.ERROR]
    assert [str(resource.address) for resource in loaded.resources] == ["Volume/shop/data"]
