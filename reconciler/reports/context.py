"""What a report is about, as its first line."""

from collections.abc import Iterator

from reconciler.core.context import Context
from reconciler.reports.look import Part, Tone

_SHORT = 8  # characters of a revision


def context_line(context: Context) -> Iterator[Part]:
    """Environment, platform, state and git revision: `prod: https://…, sqlite:…, 3f2a9c1d-dirty`."""
    revision = f"{context.revision[:_SHORT]}{'-dirty' if context.dirty else ''}" if context.revision else ""
    yield f"{context.environment}:", Tone.STRONG
    yield f" {context.platform or 'no platform'}, {context.state or 'no state'}, {revision or 'no revision'}"
