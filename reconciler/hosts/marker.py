"""The marks that a comment begins with, which no reader sees: whose it is, and what it is about.

Nothing else in a comment can be one: whatever a manifest or the platform says stands in `<code>`, its `<` as
a number, and only the very beginning of a comment counts.
"""

import re
from datetime import UTC, datetime

from msgspec import Struct

_RUN = re.compile(
    r"<!-- reconcile-run: commit=(?P<commit>[0-9a-f]{7,64}|-) at=(?P<at>\S{1,40}) "
    r"nonce=(?P<nonce>[0-9a-f]{1,64}) -->"
)


class Run(Struct, frozen=True):
    """`commit`: what the comment is about; "" where nobody knows. `at`: when its report was made.

    `nonce`: of the run that wrote it, so that a comment is known again whose answer was lost.
    """

    commit: str
    at: datetime
    nonce: str


UNREAD = Run("", datetime.fromtimestamp(0, UTC), "")  # a comment that does not say: anything is newer


def mark_of(environment: str) -> str:
    return f"<!-- reconcile:{environment} -->"


def marked(environment: str, run: Run, text: str) -> str:
    """The comment of `environment` with `text`."""
    about = f"commit={run.commit or '-'} at={run.at.astimezone(UTC).isoformat()} nonce={run.nonce}"
    return f"{mark_of(environment)}\n<!-- reconcile-run: {about} -->\n{text}"


def is_of(environment: str, body: str) -> bool:
    return body.startswith(mark_of(environment))


def run_of(body: str) -> Run:
    """The run that wrote `body`."""
    found = _RUN.fullmatch((body.splitlines()[1:2] or [""])[0])
    if found is None:
        return UNREAD
    try:
        at = datetime.fromisoformat(found["at"])
    except ValueError:
        return UNREAD
    commit = "" if found["commit"] == "-" else found["commit"]
    return Run(commit, at if at.tzinfo else at.replace(tzinfo=UTC), found["nonce"])


def text_of(body: str) -> str:
    """What a reader sees of it, as hosts may have stored it: some trim it, some change the ends of lines."""
    lines = body.splitlines()
    return "\n".join(lines[2:] if len(lines) > 1 and _RUN.fullmatch(lines[1]) else lines[1:]).strip()


def superseded(environment: str, body: str) -> str:
    """`body` as a comment of the past: folded, and not found any more."""
    return (
        f"<!-- reconcile:{environment} superseded -->\n"
        f"<details><summary>Superseded by a newer comment</summary>\n\n{text_of(body)}\n\n</details>\n"
    )
