"""`python -m tests.hosts FILE`: a double of GitHub for a page of the documentation, until it is killed.

FILE gets what a job of GitHub has in its environment, as commands for a shell.
"""

import json
import signal
import sys
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

from tests.hosts.doubles import NUMBER, REPOSITORY, TOKEN, serving


def main(file: Path) -> None:
    with serving("github", me="") as world:
        world.date = format_datetime(datetime.now(UTC), usegmt=True)
        event = file.with_name("event.json")
        event.write_text(json.dumps({"pull_request": {"number": NUMBER, "head": {"sha": world.head}}}))
        variables = {
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": world.api,
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_EVENT_PATH": str(event.absolute()),
            "GITHUB_TOKEN": TOKEN,
        }
        text = "".join(f"export {name}={value}\n" for name, value in variables.items())
        waiting = file.with_suffix(".new")
        waiting.write_text(text)
        waiting.rename(file)
        signal.pause()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
