"""structlog, to stderr: constant event names with keys, secrets redacted by field."""

import logging
import sys

import structlog

from reconciler.secrets.redaction import redact_event


def log_to_stderr(*, debug: bool) -> None:
    level = logging.DEBUG if debug else logging.INFO
    logging.getLogger("reconciler").setLevel(level)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            redact_event,
            structlog.dev.ConsoleRenderer(colors=False)
            if sys.stderr.isatty()
            else structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
