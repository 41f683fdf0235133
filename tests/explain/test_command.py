"""`reconcile explain`, as somebody types it."""

import json
from typing import Any

import pytest
import yaml

from docs.reference import cli_markdown, code_markdown, kind_markdown
from reconciler.cli.main import VERBS, run
from reconciler.cli.output import echo_diagnostics
from reconciler.core.diagnostics import Diagnostic, Severity, error, warning
from reconciler.explanations import known_codes
from reconciler.guardrails.kinds import find_guardrails
from reconciler.manifests.authoring.explain import all_explanations, all_kinds
from reconciler.policies import find_manifest_kinds
from reconciler.project.sections import PlatformSettings, known_capabilities
from reconciler.reports.diagnostics import pointer

USAGE = 64
ESCAPE = "\x1b"


@pytest.fixture
def explain(capsys: pytest.CaptureFixture[str]) -> Any:
    def explain(*arguments: str, code: int = 0) -> str:
        assert run(["explain", *arguments]) == code
        captured = capsys.readouterr()
        return captured.err if code else captured.out

    return explain


def test_without_a_topic_every_kind_is_listed(explain: Any) -> None:
    text = explain()
    assert [kind for kind in find_manifest_kinds() if f"\n  {kind}\n" not in text] == []
    assert "--codes" in text
    document = json.loads(explain("-o", "json"))
    assert [item["kind"] for item in document["kinds"]] == [*find_manifest_kinds(), *find_guardrails()]


def test_every_code_is_listed_with_one_line(explain: Any) -> None:
    lines = explain("--codes").splitlines()
    assert [line.split()[0] for line in lines if line.startswith("  ")] == known_codes()
    document = json.loads(explain("--codes", "--output", "json"))
    assert [item["code"] for item in document["codes"]] == known_codes()
    assert document["format_version"] == "1"


def test_a_code_is_explained_with_cause_example_and_cure(explain: Any) -> None:
    text = explain("volume-shrink")
    assert text.startswith("volume-shrink: ")
    assert "    error[volume-shrink]: volume `data` cannot shrink from 20 GB to 10 GB\n" in text
    assert "\nCure\n" in text
    assert "```" not in text
    document = json.loads(explain("volume-shrink", "-o", "json"))
    assert document.keys() == {"format_version", "code", "title", "text"}
    assert document["title"] in text


def test_a_kind_is_explained_with_its_fields(explain: Any) -> None:
    text = explain("volume")
    assert text.startswith("Volume\n")
    for line in ("spec.size_gb", "metadata.app", "lifecycle.deletion", "kind: Volume"):
        assert line in text
    document = json.loads(explain("VOLUME", "-o", "json"))
    assert document["kind"] == "Volume"
    assert [field["path"] for field in document["fields"]] == [
        *("apiVersion", "kind", "metadata", "spec", "lifecycle")
    ]


def test_a_kind_and_a_code_of_the_same_letters_are_told_apart(explain: Any) -> None:
    assert explain("Moved").startswith("Moved\n")
    assert explain("moved").startswith("moved: ")
    assert explain("Volume-Shrink").startswith("volume-shrink: ")


def test_a_field_is_explained(explain: Any) -> None:
    text = explain("Volume.size_gb")
    first, second, *_ = text.splitlines()
    assert first == "Volume.spec.size_gb"
    assert second == "  integer (at least 1, at most 100000) or mapping {min, max}"
    assert "a smaller one is refused" in text
    assert text == explain("Volume.spec.size_gb")
    field = json.loads(explain("Volume.size_gb", "-o", "json"))["field"]
    assert field["path"] == "spec.size_gb"
    assert [below["path"] for below in field["fields"]] == ["spec.size_gb.min", "spec.size_gb.max"]


@pytest.mark.parametrize(
    ("topic", "hint"),
    [
        ("Volumes", "did you mean `Volume`?"),
        ("volume-shrinks", "did you mean `volume-shrink`?"),
        ("Volume.size-gb", "did you mean `Volume.size_gb`?"),
        ("Volume.spec.sizegb", "did you mean `Volume.spec.size_gb`?"),
        ("Volume.xyzzy", "see `reconcile explain Volume`"),
        ("snapshot_max_age_h", "did you mean the field `RetentionPolicy.spec.snapshot_max_age_h`?"),
        ("xyzzy", "`reconcile explain` lists the kinds"),
        ("", "`reconcile explain` lists the kinds"),
        ("machine.gte", "did you mean `machine.get`?"),
        ("../../etc/passwd", "there is no kind, capability or code"),
        ("__init__", "there is no kind, capability or code"),
    ],
)
def test_an_unknown_topic_is_a_usage_error_that_names_the_nearest(
    explain: Any, topic: str, hint: str
) -> None:
    assert hint in explain(topic, code=USAGE)


@pytest.mark.parametrize("capability", sorted(known_capabilities()))
def test_a_capability_is_explained_with_what_to_write(explain: Any, capability: str) -> None:
    text = explain(capability)
    assert text.startswith(f"{capability}\n  ")
    settings = yaml.safe_load(text[text.index("    platform:") :])
    assert PlatformSettings.model_validate(settings["platform"]).capabilities == [capability]
    assert json.loads(explain(capability, "-o", "json"))["description"]


def test_a_topic_beside_codes_is_a_usage_error(explain: Any) -> None:
    assert "--codes" in explain("Volume", "--codes", code=USAGE)


def test_text_is_bold_on_a_terminal_only(explain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ESCAPE not in explain("Volume")
    monkeypatch.setattr("click._compat.isatty", lambda stream: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert explain("Volume").startswith(f"{ESCAPE}[1mVolume{ESCAPE}[0m\n")
    monkeypatch.setenv("NO_COLOR", "1")
    assert ESCAPE not in explain("Volume")


# --- where diagnostics point to it ---

SHRINK = error("volume-shrink", "message")


def test_the_gravest_diagnostic_is_the_one_that_is_pointed_to() -> None:
    remark = Diagnostic("not-compared", Severity.INFO, "message")
    surprise = warning("unused-policy", "message")
    assert pointer([remark, surprise, SHRINK]) == "more about this error: reconcile explain volume-shrink\n"
    assert pointer([remark, surprise]) == "more about this warning: reconcile explain unused-policy\n"
    assert pointer([remark]) == "more about this remark: reconcile explain not-compared\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_only_a_terminal_is_told_where_to_read_more(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    echo_diagnostics([SHRINK])
    echo_diagnostics([])
    told = "error[volume-shrink]: message\n"
    more = "\nmore about this error: reconcile explain volume-shrink\n"
    assert capsys.readouterr().err == (told + more if terminal else told)


# --- the reference ---


def test_the_reference_of_the_kinds_names_every_field() -> None:
    for page in all_kinds():
        text = kind_markdown(page)
        missing = [each.path for each in page.all_fields() if each.path.startswith(("spec", "metadata"))]
        assert [path for path in missing if f"| `{path}` | " not in text] == []
        rows = [line for line in text.splitlines() if line.startswith("| ")]
        assert {line.replace("\\|", "").count("|") for line in rows} == {5}


def test_the_reference_of_the_codes_keeps_headings_below_its_own() -> None:
    for explanation in all_explanations():
        lines = code_markdown(explanation).splitlines()
        headings = [line for line in lines if line.startswith("#")]
        assert headings == [f"## {explanation.code}", "### Example", "### Cure"]


def test_the_reference_of_the_command_line_names_every_verb_and_option() -> None:
    text = cli_markdown()
    verbs = [verb for part in VERBS.values() for verb in part]
    assert [verb for verb in verbs if f"\n## reconcile {verb}\n" not in text] == []
    for line in (
        "## reconcile state forget",
        "--approve-delete ADDRESS",
        "reconcile explain [OPTIONS] [TOPIC]",
    ):
        assert line in text
