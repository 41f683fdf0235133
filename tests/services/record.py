"""Record the cassettes anew from the sandbox: `python -m tests.services.record`.

Each call meets a fresh sandbox with the same world, a clock that stands still and a
fixed seed for its ids, so recording twice gives the same files.
"""

import json
import random
import socket
import tempfile
from contextlib import aclosing
from pathlib import Path

import anyio
from uvicorn import Config, Server
from vcr.record_mode import RecordMode  # type: ignore[import-untyped]  # vcrpy has no types

from reconciler.core.errors import ReconcilerError
from reconciler.sandbox.core import Sandbox
from reconciler.sandbox.http import Connection, application
from reconciler.services.transport import HttpxTransport
from tests.services.calls import CALLS, CASSETTES, TOKEN, VALUE, WORLD, client
from tests.services.tape import TAPE

_SINCE_S = 1767312000.0  # 2026-01-02T00:00:00Z


async def record(name: str, seed: Path) -> None:
    """Write `cassettes/NAME.yaml`. Raises AssertionError, and removes it, when it holds a secret."""
    cassette = CASSETTES / f"{name}.yaml"
    cassette.unlink(missing_ok=True)
    sandbox = Sandbox(seed=seed, token=TOKEN, wall=lambda: _SINCE_S, rng=random.Random(1))
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
        async with anyio.create_task_group() as tasks, aclosing(HttpxTransport(url)) as transport:
            tasks.start_soon(server.serve, [listener])
            with TAPE.use_cassette(str(cassette), record_mode=RecordMode.ALL):
                try:
                    await CALLS[name](client(transport, url))
                except ReconcilerError:
                    assert name.endswith("_without_app"), f"{name} failed"
            server.should_exit = True
    sandbox.close()
    text = cassette.read_text()
    if TOKEN in text or VALUE in text:
        cassette.unlink()
        raise AssertionError(f"the recording of {name} holds a secret, so it is removed")


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        seed = Path(directory) / "seed.json"
        seed.write_text(json.dumps(WORLD))
        for name in CALLS:
            await record(name, seed)


if __name__ == "__main__":
    anyio.run(main)
