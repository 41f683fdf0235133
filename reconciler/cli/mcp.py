"""`reconcile mcp`: tools for agents."""

import os
from pathlib import Path

from reconciler.cli.signals import noted, signalled
from reconciler.cli.verb import DONE, verb
from reconciler.core.extras import require_extra


@verb("mcp", report=None)
def mcp() -> None:
    """Serve tools for agents on stdin and stdout (Model Context Protocol).

    They read, and save plans for people to sign. None applies, approves, makes a state or unlocks one.
    """
    require_extra("mcp", "the server for agents")
    from reconciler.agents.server import server  # needs the extra

    # The protocol's reader waits for stdin in a thread that no signal reaches. Verbs under way only read.
    with noted(lambda: os._exit(signalled(DONE))):
        server(Path.cwd(), os.environ).run("stdio")
