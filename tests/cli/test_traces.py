"""Spans of OpenTelemetry: what a collector gets, whose they are, and that no run depends on one."""

import subprocess
import sys
import threading
from collections.abc import Mapping

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from reconciler.core import tracing
from reconciler.core.listening import listening_at
from tests.cli.harness import Project, Sandbox, secret, volume
from tests.notify.receiver import Receiver, receiving

pytestmark = pytest.mark.slow

VALUE = "canary-value-of-a-secret"
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GIVEN = {"TRACEPARENT": f"00-{TRACE}-{PARENT}-01", "TRACESTATE": "vendor=one"}


def asking(collector: str) -> Mapping[str, str]:
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": collector, **GIVEN}


def sent_to(collector: Receiver) -> list[ExportTraceServiceRequest]:
    assert {got.path for got in collector.got} == {"/v1/traces"}
    return [ExportTraceServiceRequest.FromString(got.body) for got in collector.got]


def spans_of(collector: Receiver) -> list[Span]:
    return [
        span
        for request in sent_to(collector)
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def about(span: Span) -> dict[str, object]:
    return {each["key"]: next(iter(each["value"].values())) for each in MessageToDict(span)["attributes"]}


def test_an_apply_is_spans_of_verb_steps_and_calls_without_ids_and_secrets(
    project: Project, sandbox: Sandbox, app: str
) -> None:
    project.write("manifests: [manifests]\nsecrets: {exec: [sh]}\n", "reconcile.yaml")
    program = "printenv TRACEPARENT TRACESTATE > told.txt; echo $SHOP_KEY-more"
    project.write(
        volume(app)
        + secret(app, "KEY", "env: SHOP_KEY")
        + secret(app, "TOLD", f"exec: [sh, -c, '{program}']")
    )
    with receiving() as collector:
        project.run("apply", "--auto-approve", env={"SHOP_KEY": VALUE, **asking(collector.url)})
    spans = spans_of(collector)
    verb = next(span for span in spans if span.name == "reconcile apply")
    assert (verb.trace_id.hex(), verb.parent_span_id.hex()) == (TRACE, PARENT)
    assert about(verb) == {"process.exit.code": "0"}
    assert {span.trace_id.hex() for span in spans} == {TRACE}

    steps = {str(about(span)["reconciler.step"]): span for span in spans if span.name == "step"}
    assert {step.parent_span_id for step in steps.values()} == {verb.span_id}
    assert {about(step)["reconciler.scope"] for step in steps.values()} == {app}
    create = next(span for span in spans if span.name == "POST /v1/apps/{}/volumes")
    assert create.parent_span_id == steps[f"Volume/{app}/data#create"].span_id
    assert create.kind == Span.SPAN_KIND_CLIENT
    assert about(create) == {
        "http.request.method": "POST",
        "url.template": "/v1/apps/{}/volumes",
        "server.address": "127.0.0.1",
        "http.response.status_code": "200",
    }
    assert {span.parent_span_id for span in spans if span.name == "GET /v1/apps/{}/volumes"} == {verb.span_id}

    parent, state = (project.root / "told.txt").read_text().splitlines()
    version, trace, span, flags = parent.split("-")
    assert (version, trace, flags, state) == ("00", TRACE, "01", "vendor=one")
    assert span in {each.span_id.hex() for each in spans}
    id = sandbox.volume(app)["id"]
    for got in collector.got:
        for hidden in (VALUE, id, "size_gb", project.env["RECONCILE_TOKEN"], str(project.root)):
            assert hidden.encode() not in got.body, hidden
    (resource,) = {str(each.resource) for request in sent_to(collector) for each in request.resource_spans}
    assert "service.name" in resource


def test_a_failure_is_named_by_its_class_alone(project: Project, sandbox: Sandbox, app: str) -> None:
    project.write(volume(app))
    sandbox.fault("POST", f"/v1/apps/{app}/volumes", "drop_after")
    with receiving() as collector:
        project.run("apply", "--auto-approve", code=None, env=asking(collector.url))
    call = next(span for span in spans_of(collector) if span.name == "POST /v1/apps/{}/volumes")
    assert (about(call)["error.type"], call.status.code, call.status.message) == ("Lost", 2, "")
    assert not call.events


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"},
        {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:9"},
    ],
)
def test_nothing_is_imported_where_no_variable_asks(project: Project, variables: Mapping[str, str]) -> None:
    script = (
        "import sys; from reconciler.cli.main import run; run(['drift']); "
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script],
        cwd=project.root,
        env={**project.env, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.splitlines()[-1] == "[]"


def test_a_collector_that_refuses_costs_one_warning_and_not_the_run(project: Project, app: str) -> None:
    project.write(volume(app))
    with receiving() as collector:
        collector.answers = [400] * 9
        ran = project.run("plan", "--detailed-exitcode", code=2, env=asking(collector.url))
    assert collector.got
    assert ran.err.splitlines()[-1] == (
        "warning: not all of the trace was exported: the collector did not take it"
    )
    assert ran.err.count("trace") == 1


def test_a_variable_with_a_bad_value_costs_one_warning_and_not_the_run(project: Project, app: str) -> None:
    project.write(volume(app))
    bad = {**asking("http://127.0.0.1:9"), "OTEL_BSP_MAX_QUEUE_SIZE": "-1"}
    ran = project.run("validate", env=bad)
    assert ran.err == (
        "warning: no trace is exported: ValueError; check the values of the OTEL_… variables\n"
    )


def test_a_collector_that_never_answers_does_not_hold_a_run_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "_END_S", 0.05)
    told: list[str] = []
    with listening_at("127.0.0.1", 0) as (_, url):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")  # of the thread that is left behind
        with tracing.traced({"OTEL_EXPORTER_OTLP_ENDPOINT": url}, told.append), tracing.span("one"):
            assert tracing.handed_on().keys() == {"TRACEPARENT"}
        assert any(thread.name.startswith("Otel") for thread in threading.enumerate()), "it still tries"
        assert tracing.handed_on() == {}
    assert told == ["not all of the trace was exported: the collector did not take it"]
