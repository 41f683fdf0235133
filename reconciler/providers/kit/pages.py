"""What a person sees: one resource, or one sentence about what went wrong. No script, nothing from afar."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, Template
from starlette.responses import HTMLResponse

from reconciler.providers.kit.functions import Visitor

HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",  # the address of the callback holds a code
    "x-content-type-options": "nosniff",
}

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{{ title }}</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 40rem; margin: 3rem auto; padding: 0 1rem }
th { text-align: left; padding-right: 2rem; font-weight: 600 } td { overflow-wrap: anywhere }
</style>
</head>
<body>
<h1>{{ title }}</h1>
{% if text %}<p>{{ text }}</p>{% endif %}
{% if visitor %}
<table>
{% for name, value in rows %}<tr><th>{{ name }}</th><td>{{ value }}</td></tr>
{% endfor %}
</table>
{% if untold %}
<p>The platform has not taken {{ untold }} of our messages about this resource yet.</p>
{% endif %}
<p>Signed in as {{ visitor.name }} ({{ visitor.email }}),
<strong>{{ visitor.role }}</strong> of this organization.</p>
<form method="post" action="{{ end }}"><button>Sign out</button></form>
{% endif %}
</body>
</html>
"""


def problem(status: int, title: str, text: str) -> HTMLResponse:
    return HTMLResponse(_template().render(title=title, text=text), status, HEADERS)


def resource(
    provider: str, shown: Mapping[str, Any], visitor: Visitor, untold: int, end: str
) -> HTMLResponse:
    """`end`: the path that signs out. `untold`: how many messages about it the platform did not take."""
    rows = [
        (name.replace("_", " "), ", ".join(map(str, value)) if isinstance(value, list) else value)
        for name, value in shown.items()
    ]
    title = f"{shown['name']} at {provider}"
    page = _template().render(title=title, rows=rows, visitor=visitor, untold=untold, end=end)
    return HTMLResponse(page, 200, HEADERS)


@cache
def _template() -> Template:
    return Environment(autoescape=True).from_string(_PAGE)
