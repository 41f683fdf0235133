"""What hosts and CI systems show of a report: valid for their own readers, and no text leaves its place."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from junitparser import Failure, JUnitXml, TestCase, TestSuite
from msgspec.structs import replace

from reconciler.core.diagnostics import Span, error, warning
from reconciler.core.model import Action, Address, Change
from reconciler.core.steps import Call, Result, Step
from reconciler.manifests.load import load
from reconciler.manifests.reading import compose
from reconciler.manifests.reading import lines as later
from reconciler.planning.declared import Desired
from reconciler.reports import report as reports
from reconciler.reports.escape import visible
from reconciler.reports.findings import findings_of
from reconciler.reports.formats import find_formats
from reconciler.reports.formats.sarif import SCHEMA
from reconciler.reports.links import Links
from reconciler.reports.report import (
    ApplyReport,
    DriftReport,
    PlanReport,
    Report,
    ValidationReport,
)
from tests.reports.plans import DIAGNOSTICS, DRIFT, EMPTY, OWED, PLAN, RESULTS
from tests.reports.reports import ADDRESS, HOST, HOSTILE, harmless, rehearsal_of, reports_of, texts
from tests.reports.schemas import SARIF, SARIF_TEXT

DECLARED = {ADDRESS: Span("manifests/data.yaml", 3, 9, 13)}
COMMAND = re.compile(r"::(?P<name>[a-z]+) (?P<properties>[^:\n]*)::(?P<data>.*)")
ALL: dict[str, Report] = {
    "plan": PlanReport(plan=PLAN, diagnostics=DIAGNOSTICS),
    "drift": DriftReport(plan=DRIFT, unmanaged=DRIFT.changes[:1]),
    "apply": ApplyReport(plan=PLAN, results=RESULTS, owed=OWED, diagnostics=DIAGNOSTICS),
    "validate": ValidationReport(resources=3, files=("a.yaml", "b.yaml"), diagnostics=DIAGNOSTICS),
    "failure": reports.Failure(message="it broke", help="mend it"),
}


def rendered(name: str, report: Report) -> str:
    return find_formats()[name].render(report)


@pytest.mark.parametrize("code", ["inferred-id", "not-compared"])
def test_what_is_true_in_every_run_is_a_remark_and_no_finding(code: str) -> None:
    remark = warning(code, "nothing has to be done")
    said = DriftReport(plan=EMPTY, diagnostics=(remark,))
    assert list(findings_of(said)) == []
    assert remark.message in rendered("text", said)


# --- SARIF ---


def sarif(report: Report) -> Any:
    document = json.loads(rendered("sarif", report))
    assert SARIF.problems(document) == []
    (run,) = document["runs"]
    return run


@pytest.mark.parametrize("kind", list(ALL))
def test_sarif_is_as_its_standard_says(kind: str) -> None:
    run = sarif(ALL[kind])
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
    for told in run["invocations"][0].get("toolExecutionNotifications", ()):
        assert rules[told["associatedRule"]["index"]] == told["associatedRule"]["id"]
    assert SARIF_TEXT["id"] == SCHEMA


def test_the_schema_refuses_what_is_no_sarif() -> None:
    assert SARIF.problems({"version": "2.1.0", "runs": [{"results": []}]})


def test_sarif_has_the_span_the_help_and_the_page_of_a_diagnostic() -> None:
    run = sarif(ALL["plan"])
    (result,) = run["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "manifests/orders.yaml", "uriBaseId": "%SRCROOT%"}
    assert place["region"] == {"startLine": 7, "startColumn": 12, "endColumn": 14}
    assert result["level"] == "error"
    assert result["message"]["text"].endswith("the live size is 20 GB\n\nset `size_gb: 20`")
    rule = run["tool"]["driver"]["rules"][result["ruleIndex"]]
    assert rule["shortDescription"]["text"] == "a live volume is larger than in its manifest"
    assert "## Cure" in rule["help"]["markdown"]
    told, *owed = run["invocations"][0]["toolExecutionNotifications"]  # what stands at no line
    assert [each["associatedRule"]["id"] for each in owed] == ["owed", "owed"]
    assert told["message"]["text"] == "something without a place"
    assert run["invocations"][0]["executionSuccessful"] is False
    assert run["automationDetails"]["id"] == "reconcile/plan/prod/"


def test_what_drifted_is_shown_at_its_manifest() -> None:
    (result,) = sarif(replace(ALL["drift"], declared=DECLARED, links=HOST))["results"][:1]
    (place,) = result["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "infra/manifests/data.yaml"
    assert place["logicalLocations"] == [{"fullyQualifiedName": "Volume/shop/data", "kind": "resource"}]
    assert "snapshot_retention: 14 -> 7" in result["message"]["text"]
    assert result["level"] == "warning"


def test_each_rule_of_sarif_has_what_code_scanning_requires_and_each_run_the_tools_version() -> None:
    """Source: GitHub, "SARIF support for code scanning"; Microsoft's validator, GH2012 and SARIF2005."""
    for report in ALL.values():
        driver = sarif(report)["tool"]["driver"]
        assert driver["version"]
        assert driver["informationUri"] == f"pkg:generic/reconciler@{driver['version']}"
        for rule in driver["rules"]:
            assert all(rule[each]["text"] for each in ("shortDescription", "fullDescription", "help"))


def test_no_text_becomes_a_link_of_sarif() -> None:
    report = reports.Failure(message="no", diagnostics=(error("a", "see [this](https://evil.test) \\"),))
    (told,) = sarif(report)["invocations"][0]["toolExecutionNotifications"]
    assert told["message"]["text"] == "see \\[this\\](https://evil.test) \\\\"


# --- fingerprints ---


def fingerprints(report: Report) -> list[str]:
    found: list[Any] = json.loads(rendered("gitlab", report))
    by_sarif = [each["partialFingerprints"]["reconcile/v1"] for each in sarif(report)["results"]]
    assert set(by_sarif) <= {each["fingerprint"] for each in found}
    return [each["fingerprint"] for each in found]


def test_a_finding_keeps_its_fingerprint_when_its_line_and_its_numbers_move() -> None:
    def one(line: int, message: str, file: str = "a.yaml", code: str = "bad") -> list[str]:
        problem = warning(code, message, Span(file, line, 1, 2))
        return fingerprints(ValidationReport(resources=1, files=(file,), diagnostics=(problem,)))

    assert one(1, "older than 25 h") == one(9, "older than 26 h")
    assert len({*one(1, "a"), *one(1, "b"), *one(1, "a", "b.yaml"), *one(1, "a", code="worse")}) == 4


def test_equal_findings_have_their_own_fingerprints() -> None:
    problem = warning("bad", "twice", Span("a.yaml", 1, 1, 2))
    again = replace(problem, span=Span("a.yaml", 5, 1, 2))
    found = fingerprints(ValidationReport(resources=1, files=("a.yaml",), diagnostics=(problem, again)))
    assert len(set(found)) == 2


def test_environments_do_not_share_fingerprints() -> None:
    other = replace(EMPTY, context=replace(EMPTY.context, environment="staging"))
    problem = (warning("bad", "no", Span("a.yaml", 1, 1, 2)),)
    both = [PlanReport(plan=plan, diagnostics=problem) for plan in (EMPTY, other)]
    assert fingerprints(both[0]) != fingerprints(both[1])


# --- GitLab ---


@pytest.mark.parametrize("kind", list(ALL))
def test_gitlab_gets_all_that_it_wants_of_each_finding(kind: str) -> None:
    found = json.loads(rendered("gitlab", ALL[kind]))
    assert found
    for each in found:
        assert set(each) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert each["severity"] in {"info", "minor", "major", "critical", "blocker"}
        assert each["location"]["lines"]["begin"] >= 1
        assert each["location"]["path"]
        assert "\n" not in each["check_name"]


@pytest.mark.parametrize("settings", ["infra/reconcile.yaml", ""])
def test_gitlab_shows_what_has_no_place_at_the_settings_or_at_a_manifest(settings: str) -> None:
    found = json.loads(rendered("gitlab", replace(ALL["plan"], links=replace(HOST, settings=settings))))
    assert [each["location"]["path"] for each in found[:2]] == [
        "infra/manifests/orders.yaml",
        settings or "infra/manifests/orders.yaml",
    ]


def test_nothing_found_is_an_empty_list() -> None:
    assert json.loads(rendered("gitlab", PlanReport(plan=EMPTY))) == []
    assert sarif(PlanReport(plan=EMPTY))["results"] == []


# --- GitHub ---


def commands(text: str) -> list[tuple[str, dict[str, str], str]]:
    """As a runner reads them: every line that begins as a command has to be a whole one."""
    found = []
    for line in text.split("\n"):
        if line.lstrip().startswith("::"):
            parts = COMMAND.fullmatch(line)
            assert parts is not None, line
            said = dict(each.split("=", 1) for each in parts["properties"].split(","))
            found.append(
                (parts["name"], {name: _read(each) for name, each in said.items()}, _read(parts["data"]))
            )
    return found


def _read(text: str) -> str:
    for written, meant in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        text = text.replace(written, meant)
    return text


def test_github_gets_a_command_for_each_finding() -> None:
    first, second, *rest = rendered("github", replace(ALL["plan"], links=HOST)).splitlines()
    assert first.startswith("plan of prod: https://platform.example")
    assert second.startswith("Plan: 1 to delete")
    place = {"file": "infra/manifests/orders.yaml", "line": "7", "col": "12", "endColumn": "13"}
    text = "volume `shrunk` cannot shrink from 20 GB to 10 GB: the live size is 20 GB\nset `size_gb: 20`"
    assert commands("\n".join(rest))[:2] == [
        ("error", {**place, "title": "volume-shrink"}, text),
        ("warning", {"title": "note"}, "something without a place"),
    ]


def test_a_name_does_not_begin_a_command() -> None:
    about = replace(EMPTY.context, environment=":", state="sqlite:::")
    assert commands(rendered("github", PlanReport(plan=replace(EMPTY, context=about)))) == []


def commands_of(report: Report) -> list[tuple[str, list[str]]]:
    shown = rendered("github", report)
    assert "##[" not in shown
    return [(name, list(said)) for name, said, _ in commands(shown)]


@given(texts)
def test_no_text_gives_a_command_to_a_runner(text: str) -> None:
    assert tuple(map(commands_of, reports_of(text))) == harmless(commands_of)


@pytest.mark.parametrize("text", ["50%0A::error::x", "a,b:c=d", "%25", "x%3Ay"])
def test_what_github_reads_is_what_was_meant(text: str) -> None:
    problem = error("bad", text, Span(f"{text}.yaml", 1, 1, 2))
    report = ValidationReport(resources=1, files=(), diagnostics=(problem,))
    ((_, said, data),) = commands(rendered("github", report))
    assert data == visible(text)
    assert said["file"] == visible(f"{text}.yaml")


def test_the_summary_of_a_step_is_markdown_that_is_not_too_long() -> None:
    summary = find_formats()["github"].step_summary
    assert summary is not None
    assert summary(ALL["plan"]) == rendered("markdown", ALL["plan"])
    changes = tuple(
        Change(Address("Volume", f"v{at}", f"app-{at}"), Action.UPDATE, reason="x" * 400)
        for at in range(4000)
    )
    long = summary(PlanReport(plan=replace(EMPTY, changes=changes)))
    assert 900_000 < len(long.encode()) <= 1_000_000


# --- JUnit ---


def junit(report: Report) -> list[TestCase]:
    suites = JUnitXml.fromstring(rendered("junit", report))
    (suite,) = suites
    assert isinstance(suite, TestSuite)
    cases = [case for case in suite if isinstance(case, TestCase)]
    told = (suite.tests, suite.failures, suite.errors, suite.skipped)
    suite.update_statistics()  # type: ignore[no-untyped-call]
    assert told == (suite.tests, suite.failures, suite.errors, suite.skipped)
    assert (suites.tests, suites.failures, suites.errors) == told[:3]
    return cases


def ends(report: Report) -> dict[str, list[str]]:
    """Of each case by its name."""
    cases = (case for case in junit(report) if case.classname != "owed")
    return {str(case.name): [type(each).__name__ for each in case.result] for case in cases}


def test_each_file_is_a_test_of_validate() -> None:
    problem = DIAGNOSTICS[0]
    remark = warning("note", "hm", Span("a.yaml", 1, 1, 2))
    report = ValidationReport(
        resources=3, files=("a.yaml", "manifests/orders.yaml"), diagnostics=(problem, remark, DIAGNOSTICS[1])
    )
    assert ends(report) == {"a.yaml": [], "manifests/orders.yaml": ["Failure"], "project": []}
    first, second, _ = junit(report)
    assert "warning[note]: hm" in str(first.system_out)
    (failure,) = second.result
    assert isinstance(failure, Failure)
    assert failure.message == problem.message
    assert "--> manifests/orders.yaml:7:12" in str(failure.text)


def test_each_object_that_drifted_is_a_failed_test() -> None:
    report = DriftReport(plan=DRIFT, unmanaged=(Change(ADDRESS._replace(name="aside"), Action.NOOP),))
    assert ends(report) == {
        "Volume/shop/data": ["Failure"],
        "PostgresCluster/orders": ["Failure"],
        "Volume/shop/aside": [],
        "4 without drift": [],
    }
    assert ends(DriftReport(plan=EMPTY)) == {"3 without drift": []}


def test_each_call_of_an_apply_is_a_test() -> None:
    found = ends(ApplyReport(plan=PLAN, results=RESULTS, owed=OWED))
    assert found == {
        "PostgresCluster/orders#create": [],
        "PostgresCluster/copy#restore": ["Skipped"],
        "Secret/shop/API_KEY#set": ["Failure"],
        "Volume/shop/data[1]#extend": ["Error"],
        "Volume/shop/unwanted#delete": ["Skipped"],
        "Machine/shop/busy#start": [],
    }


def test_a_refused_change_and_an_error_fail_a_plan() -> None:
    found = ends(ALL["plan"])
    assert found["Volume/shop/shrunk: refused"] == ["Failure"]
    assert found["manifests/orders.yaml:7:12"] == ["Error"]
    assert found["Volume/shop/logs: update"] == []


def test_a_refused_change_is_one_failure_with_the_errors_about_it() -> None:
    shrunk = Address("Volume", "shrunk", "shop")
    about = replace(error("volume-shrink", "cannot shrink"), addresses=(str(shrunk),))
    text = rendered("junit", PlanReport(plan=PLAN, diagnostics=(about,)))
    (suite,) = JUnitXml.fromstring(text.encode())
    assert (suite.failures, suite.errors) == (1, 0)
    assert "cannot shrink" in text


def test_no_two_tests_of_junit_have_one_name() -> None:
    """GitLab shows only one of a name."""
    found = junit(DriftReport(plan=EMPTY, diagnostics=(warning("lookalike", "x"),) * 3))
    names = [case.name for case in found if case.classname == "lookalike"]
    assert names == ["project", "project (2)", "project (3)"]


def test_each_call_and_fault_of_a_rehearsal_is_a_test() -> None:
    report = PlanReport(plan=EMPTY, rehearsal=rehearsal_of("Volume/shop/data#create"))
    assert ends(report) == {
        "clean run": ["Failure"],
        "as the plan says": ["Failure"],
        "Volume/shop/data#create: lost_before": [],
        "Volume/shop/data#create: lost_after": ["Skipped"],
        "Volume/shop/data#create: error_after": ["Failure"],
        "Volume/shop/data#create: slow": ["Skipped"],
        "Volume/shop/data#create: refused_412": [],
        "Volume/shop/data#create: limited_429": [],
        "Volume/shop/data#create: killed": ["Skipped"],
        "Volume/Volume/shop/data#create/Volume/shop/data#create": ["Skipped"],
    }
    asked = next(case for case in junit(report) if case.name == "Volume/shop/data#create: killed")
    assert asked.result[0].message == "a person must decide: Volume/shop/data#create"
    assert "owed: Volume/shop/data: Volume/shop/data#create (unknown" in str(asked.system_out)


def elements_of(report: Report) -> list[tuple[str, list[str]]]:
    return [
        (each.tag, list(each.attrib)) for each in ElementTree.fromstring(rendered("junit", report)).iter()
    ]


@given(texts)
def test_no_text_leaves_its_place_in_junit(text: str) -> None:
    assert tuple(map(elements_of, reports_of(text))) == harmless(elements_of)


# --- all ---


@pytest.mark.parametrize("name", ["sarif", "gitlab", "junit", "github"])
@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_read_back_by_a_parser(name: str, text: str) -> None:
    for report in reports_of(text):
        shown = rendered(name, report)
        if name == "sarif":
            sarif(report)
        elif name == "gitlab":
            json.loads(shown)
        elif name == "junit":
            junit(report)
        assert not re.search("[\u202e\u2028]", shown)


def test_standard_input_has_no_place_in_a_repository() -> None:
    problem = error("bad", "no", Span("<stdin>", 1, 1, 2))
    report = ValidationReport(resources=0, files=("<stdin>",), diagnostics=(problem,), links=Links("infra"))
    assert sarif(report)["results"] == []
    ((_, said, _),) = commands(rendered("github", report))
    assert said == {"title": "bad"}


def test_owed_work_is_a_remark_everywhere() -> None:
    report = PlanReport(plan=replace(EMPTY, owed=OWED))
    first, second = json.loads(rendered("gitlab", report))
    assert first["severity"] == "info"
    assert first["description"] == (
        "Volume/shop/data: restart, because extended from 5 to 10 GB "
        "(once done: reconcile resolve Volume/shop/data --restarted)"
    )
    assert "restart (unknown whether needed)" in second["description"]
    assert [case.name for case in junit(report)] == ["Volume/shop/data", "Volume/shop/logs"]
    assert [name for name, _, _ in commands(rendered("github", report))] == ["notice", "notice"]


def test_what_a_rehearsal_complains_about_stands_at_the_manifest_of_its_call() -> None:
    step = Step(f"{ADDRESS}#create", ADDRESS, Call("POST", "/x"))
    plan = replace(EMPTY, steps=(step,))
    report = PlanReport(plan=plan, rehearsal=rehearsal_of(step.id), declared=DECLARED)
    run = sarif(report)
    told = [(each["ruleId"], each["level"], each["message"]["text"]) for each in run["results"]]
    asked = f"{step.id}: a person must decide with lost_after, killed: {step.id}"
    assert told == [
        ("rehearsal-failed", "warning", f"{step.id} fails with error_after: {step.id}"),
        ("rehearsal-decision", "warning", asked),
    ]
    for each in run["results"]:
        place = each["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == "manifests/data.yaml"
    unplaced = [each["message"]["text"] for each in run["invocations"][0]["toolExecutionNotifications"]]
    assert unplaced == [
        f"on the twin, a clean run differs from the plan: {step.id}",
        f"a clean run fails: {step.id}",
    ]
    assert run["invocations"][0]["executionSuccessful"] is False
    assert len(json.loads(rendered("gitlab", report))) == 4
    named = [name for name, _, _ in commands(rendered("github", report))]
    assert named == ["error", "error", "warning", "warning"]


def test_a_step_that_is_not_done_is_a_finding() -> None:
    results = (Result(ADDRESS, f"{ADDRESS}#set", "failed", error="the platform answered 422"),)
    report = ApplyReport(plan=EMPTY, results=results, declared=DECLARED)
    (result,) = sarif(report)["results"]
    assert result["ruleId"] == "not-done"
    assert result["message"]["text"] == "Volume/shop/data#set is failed: the platform answered 422"
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == "manifests/data.yaml"


def test_positions_of_manifests_are_read_for_what_is_found_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They cost as much as all manifests did, and most reports show none."""
    (tmp_path / "data.yaml").write_text(
        "apiVersion: reconciler/v1\nkind: Volume\nmetadata:\n  name: data\n  app: shop\n"
        "spec:\n  region: ams\n  size_gb: 10\n"
    )
    read: list[str] = []

    def told(*arguments: Any) -> Any:
        read.append("read")
        return compose.compose(*arguments)

    found = load([str(tmp_path)], root=tmp_path)
    assert found.diagnostics == ()
    desired = Desired(found.resources)
    monkeypatch.setattr(later, "compose", told)
    plan = replace(
        EMPTY, changes=(Change(ADDRESS, Action.CREATE), Change(ADDRESS._replace(name="gone"), Action.FORGET))
    )
    report = ApplyReport(plan=plan, declared=desired.declared_at(plan))
    assert "1 to create" in rendered("text", report)
    assert read == []
    assert [(address, span.line) for address, span in report.declared.items()] == [(ADDRESS, 4)]
    assert (len(report.declared), read) == (1, ["read"])
