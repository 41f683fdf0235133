"""Spans of OpenTelemetry, which is imported only for them. They hold no bodies, and no words of failures."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Thread
from typing import Any

from reconciler.core.context import program_version

Attributes = Mapping[str, str] | None
Note = Callable[[str, str | int], None]  # sets an attribute of a span
_END_S = 5.0  # for which a run waits for the export of its last spans
_tracer: Any = None  # OpenTelemetry's, while a run is traced


@contextmanager
def traced(environ: Mapping[str, str], warn: Callable[[str], None]) -> Iterator[None]:
    """Export the spans that are made meanwhile. Never fails; `warn` gets one line at most."""
    global _tracer
    places = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    implied = "otlp" if any(environ.get(name) for name in places) else "none"
    if _tracer is not None or (environ.get("OTEL_TRACES_EXPORTER") or implied) != "otlp":
        yield
        return
    from logging.handlers import BufferingHandler  # late, as the rest: most runs are not traced

    lost, end = BufferingHandler(1000), None
    logging.getLogger("opentelemetry").addHandler(lost)  # not shown: it may hold headers
    try:
        from opentelemetry import context, propagate
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        us = Resource({"service.name": "reconciler", "service.version": program_version()})
        provider = TracerProvider(resource=us.merge(OTELResourceDetector().detect()), shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        given = {name: environ.get(name.upper(), "") for name in ("traceparent", "tracestate")}
        context.attach(propagate.extract(given))
        _tracer, end = provider.get_tracer("reconciler"), provider.shutdown
    except Exception as failure:
        if not isinstance(failure, ImportError):  # without `reconciler[otel]`
            warn(f"no trace is exported: {type(failure).__name__}; check the values of the OTEL_… variables")
    try:
        yield
    finally:
        _tracer = None
        ending = Thread(target=end, daemon=True)
        ending.start()
        ending.join(_END_S)
        if ending.is_alive() or lost.buffer:
            warn("not all of the trace was exported: the collector did not take it")


@contextmanager
def span(name: str, about: Attributes = None, *, call: bool = False, new: bool = False) -> Iterator[Note]:
    """A span around what is done meanwhile. `new`: it begins a trace. `about`: its attributes."""
    if _tracer is None:
        yield lambda name, value: None
        return
    from opentelemetry.context import Context
    from opentelemetry.trace import SpanKind, StatusCode

    context, kind = Context() if new else None, SpanKind.CLIENT if call else SpanKind.INTERNAL
    with _tracer.start_as_current_span(
        name, context, kind, about, record_exception=False, set_status_on_exception=False
    ) as made:
        try:
            yield made.set_attribute
        except BaseException as failure:
            made.set_attribute("error.type", type(failure).__name__)
            made.set_status(StatusCode.ERROR)
            raise


def handed_on() -> Mapping[str, str]:
    """The variables by which a program that is started now continues the trace."""
    if _tracer is None:
        return {}
    from opentelemetry import propagate

    found: dict[str, str] = {}
    propagate.inject(found)
    return {name.upper(): found[name] for name in ("traceparent", "tracestate") if name in found}
