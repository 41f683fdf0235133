"""A leap year of windows and freezes, minute by minute, against a second calendar."""

import sys

from tests.guardrails.test_calendar import CHANGES, LIMITS, differences


def main() -> int:
    """Returns 1 where the two differ."""
    found = differences(every=1)
    what = f"{len(LIMITS)} windows and freezes, {len(CHANGES)} kinds of changes"
    sys.stdout.write(f"{what}: {len(found)} differences\n{chr(10).join(found[:20])}\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
