"""Record the cassettes anew from the sandbox: `python -m tests.services.record`.

Each call meets a fresh sandbox with the same world, a clock that stands still and a
fixed seed for its ids, so recording twice gives the same files.
"""

import random
import socket
from contextlib import aclosing
from pathlib import Path

import anyio
from uvicorn import Config, Server
from vcr.record_mode import RecordMode  # type: ignore[import-untyped]  # vcrpy has no types

from reconciler.core.errors import PlatformError
from reconciler.sandbox.core import Sandbox
from reconciler.sandbox.server import Connection, application
from reconciler.services.transport import HttpTransport
from tests.services.calls import CALLS, CASSETTES, TOKEN, UNLIKE, VALUE, WORLD, client
from tests.services.tape import TAPE

_SINCE_S = 1767312000.0  # 2026-01-02T00:00:00Z


async def record(name: str, folder: Path) -> None:
    """Write `NAME.yaml` in `folder`. Raises AssertionError, and removes it, when it holds a secret."""
    cassette = folder / f"{name}.yaml"
    cassette.unlink(missing_ok=True)
    options = {"token": TOKEN, **UNLIKE.get(name, {})}
    sandbox = Sandbox(seed=WORLD, wall=lambda: _SINCE_S, rng=random.Random(1), **options)
    config = Config(
        application(sandbox),
        http=Connection,
        lifespan="off",
        log_config=None,
        date_header=False,
        server_header=False,
    )
    server = Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with (
            anyio.create_task_group() as tasks,
            aclosing(HttpTransport(url)) as transport,
        ):
            tasks.start_soon(server.serve, [listener])
            with TAPE.use_cassette(str(cassette), record_mode=RecordMode.ALL):
                try:
                    await CALLS[name](client(transport, url))
                except PlatformError as failure:
                    if not failure.status:
                        raise
            server.should_exit = True
    sandbox.close()
    text = cassette.read_text()
    if TOKEN in text or VALUE in text:
        cassette.unlink()
        raise AssertionError(f"the recording of {name} holds a secret, so it is removed")


async def record_all(folder: Path) -> None:
    for name in CALLS:
        await record(name, folder)


if __name__ == "__main__":
    anyio.run(record_all, CASSETTES)
