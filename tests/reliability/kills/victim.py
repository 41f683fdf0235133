"""`reconcile` with its boundaries instrumented, in a process that was forked for it.

By environment: `KILLS_TRACE` (file for the names of the boundaries reached), `KILLS_SANDBOX` (its URL),
`KILLS_STRIKE` and `KILLS_SIGNAL` (the one boundary at which the process signals itself), `KILLS_PLANTED`
(a defect of `planted`, by which the checker itself is checked). Without `KILLS_TRACE` nothing is wrapped.
"""

import os
import sys
from pathlib import Path

from reconciler.cli.main import main
from tests.reliability.kills.boundaries import Boundaries, wrap_everything
from tests.reliability.kills.planted import plant


def run(arguments: list[str]) -> None:
    """Ends as `reconcile` does: by SystemExit with its code."""
    sys.argv = ["reconcile", *arguments]
    if "KILLS_PLANTED" in os.environ:
        plant(os.environ["KILLS_PLANTED"])
    if "KILLS_TRACE" in os.environ:
        boundaries = Boundaries(
            Path(os.environ["KILLS_TRACE"]),
            os.environ.get("KILLS_STRIKE", ""),
            int(os.environ.get("KILLS_SIGNAL", "0")),
        )
        wrap_everything(boundaries, os.environ["KILLS_SANDBOX"])
    main()
