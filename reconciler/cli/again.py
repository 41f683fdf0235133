"""Commands that texts advise to run, with this run's options: so they act on the same state and platform.

Whoever writes such a text (`reconcile state forget ADDRESS`) knows no options. They are put in here, where it
is printed.
"""

import re
import shlex
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import click

from reconciler.core.diagnostics import Diagnostic

# Verbs that act on, or tell of, one environment's objects; the first ones also take --sandbox.
_COMMAND = re.compile(
    r"\breconcile (?:(?P<platform>plan|apply|drift|import|show|resolve)|"
    r"state [a-z]+|secret fingerprint|extension [a-z]+)\b(?!-)"
)
_TEXTS = ("message", "help", "reason", "error", "note")  # of JSON documents: our own words, not values
_LISTS = ("changes", "results", "diagnostics", "refused", "skipped")


def here(text: str) -> str:
    """`text` with this run's --env, --state and --sandbox in each command that takes them."""
    context = click.get_current_context(silent=True)
    if context is None:
        return text
    env, state = context.params.get("env", ""), context.params.get("state_url")
    shown = state if state and state.startswith("sqlite:") else ""  # others may hold a password
    given = [*(("--env", env) if env else ()), *(("--state", shown) if shown else ())]
    chosen = f" {shlex.join(given)}" if given else ""
    sandbox = " --sandbox" if context.params.get("sandbox") else ""
    if not chosen and not sandbox:
        return text
    return _COMMAND.sub(lambda found: f"{found[0]}{chosen}{sandbox if found['platform'] else ''}", text)


def told_here(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """`diagnostics` with this run's options in the commands that they advise."""
    return [
        replace(each, message=here(each.message), help=here(each.help), notes=tuple(map(here, each.notes)))
        for each in diagnostics
    ]


def document_here(document: Any) -> Any:
    """A JSON document with this run's options in the commands that its texts advise."""
    if not isinstance(document, dict):
        return document
    found = _texts_here(document)
    for name in _LISTS:
        if isinstance(found.get(name), list):
            found[name] = [_texts_here(each) if isinstance(each, dict) else each for each in found[name]]
    return found


def _texts_here(document: dict[str, Any]) -> dict[str, Any]:
    texts = {name: here(document[name]) for name in _TEXTS if isinstance(document.get(name), str)}
    return document | texts
