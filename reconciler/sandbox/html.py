"""The pages for people, from templates beside this module. Every value is escaped."""

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from reconciler.sandbox.exchange import Response

if TYPE_CHECKING:
    from jinja2 import Template


def page(template: str, headers: dict[str, str], status: int = 200, **values: object) -> Response:
    """`template` is the name of a file in this package, such as `page.html`."""
    text = _template(template).render(**values)
    return Response(status, text.encode("utf-8", "replace"), "text/html; charset=utf-8", dict(headers))


@cache
def _template(name: str) -> "Template":
    from jinja2 import (
        Environment,
    )  # late: a sandbox in process shows no pages, and needs no server's packages

    source = resources.files("reconciler.sandbox").joinpath(name).read_text(encoding="utf-8")
    return Environment(autoescape=True, trim_blocks=True).from_string(source)
