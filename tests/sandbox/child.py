"""Serves a sandbox, prints its URL and ends with stdin. argv[1]: keywords of `serve`, as JSON."""

import json
import sys
from pathlib import Path

from reconciler.sandbox import serve


def main() -> None:
    options = json.loads(sys.argv[1])
    for name in ("db", "machine_socket"):
        if name in options:
            options[name] = Path(options[name])
    serve(**options, ready=lambda url: print(url, flush=True), until_stdin_closes=True)  # noqa: T201


if __name__ == "__main__":
    main()
