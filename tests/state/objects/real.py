"""The tests of object stores on a real server: python -m tests.state.objects.real NAME.

NAME is `seaweedfs`, or `azurite` and its program `azurite-blob`. What follows is given to pytest.
"""

import os
import subprocess
import sys
from collections.abc import Sequence

from tests.state.objects.servers import running_azurite, running_seaweedfs

TESTS = [f"tests/state/objects/test_{name}.py" for name in ("contract", "probe", "rivals")]


def main(arguments: Sequence[str]) -> int:
    if arguments[0] == "azurite":
        with running_azurite(arguments[1]) as endpoint:
            return _passed("TEST_AZURE", endpoint, arguments[2:])
    with running_seaweedfs() as endpoint:
        return _passed("TEST_S3", endpoint, arguments[1:])


def _passed(variable: str, endpoint: str, tests: Sequence[str]) -> int:
    command = [sys.executable, "-m", "pytest", *(tests or TESTS)]
    return subprocess.run(command, env={**os.environ, variable: endpoint}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
