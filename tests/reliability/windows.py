"""A leap year of windows and freezes, minute by minute, against a second calendar: `python -m` this module."""

import sys

from tests.guardrails.test_calendar import CHANGES, LIMITS, differences

if __name__ == "__main__":
    found = differences(every=1)
    print(f"{len(LIMITS)} windows and freezes, {len(CHANGES)} kinds of changes: {len(found)} differences")
    print("\n".join(found[:20]))
    sys.exit(bool(found))
