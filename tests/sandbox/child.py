"""Serves a sandbox, prints its URL and ends with stdin. argv[1]: keywords of `serve`, as JSON."""

import json
import sys
from pathlib import Path

from reconciler.sandbox import serve


def main() -> None:
    options = json.loads(sys.argv[1])
    if "db" in options:
        options["db"] = Path(options["db"])
    serve(**options, ready=lambda url: print(url, flush=True), until_stdin_closes=True)  # noqa: T201


if __name__ == "__main__":
    main()
