"""Load on a sandbox: `python -m bench.load [--clients N] [--seconds S]`.

Each client has one connection and an app of its own, and does all that changes a world, without a pause:
creates, updates, extends, snapshots, secrets, deletes, and reads between them. At the end the world is read
once: everything that was acknowledged must be there, as it was acknowledged last. Prints one line of
figures; the exit code is 1 when a request failed or a write was lost.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from reconciler.sandbox.parts.secret import holds

_HOLD = 5  # volumes that a client keeps before it deletes the oldest


@dataclass
class Acknowledged:
    """What one client was told: volumes by id with the fields last answered, None for a deleted one."""

    app: str
    volumes: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    snapshots: set[str] = field(default_factory=set)
    secrets: dict[str, str] = field(default_factory=dict)  # values by name
    requests: int = 0
    writes: int = 0
    errors: list[str] = field(default_factory=list)
    slowest_s: float = 0.0


class Connection:
    """One request after the other over one socket."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        content = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: {self._host}:{self._port}\r\n"
            f"authorization: Bearer sandbox\r\ncontent-type: application/json\r\n"
            f"content-length: {len(content)}\r\n\r\n"
        )
        self._writer.write(head.encode() + content)
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        answer = await self._reader.readexactly(int(headers.get("content-length", "0")))
        return int(lines[0].split(" ", 2)[1]), json.loads(answer) if answer else None

    def close(self) -> None:
        self._writer.close()


async def client(connection: Connection, told: Acknowledged, until: float) -> None:
    """Change the client's own app until the time `until` of the monotonic clock."""
    volumes = f"/v1/apps/{told.app}/volumes"
    kept: list[str] = []

    async def ask(method: str, path: str, body: Any = None) -> Any:
        began = time.monotonic()
        status, answer = await connection.ask(method, path, body)
        told.slowest_s = max(told.slowest_s, time.monotonic() - began)
        told.requests += 1
        told.writes += method != "GET"
        if status >= 300:
            told.errors.append(f"{method} {path}: {status} {answer}")
        return answer

    await connection.open()
    try:
        turn = 0
        while time.monotonic() < until:
            turn += 1
            made = await ask("POST", volumes, {"name": f"data{turn}", "region": "ams"})
            id = made["id"]
            told.volumes[id] = {"name": made["name"], "size_gb": 3, "snapshot_retention": 5}
            kept.append(id)
            await ask("PUT", f"{volumes}/{id}", {"snapshot_retention": 14})
            told.volumes[id] = {"name": made["name"], "size_gb": 3, "snapshot_retention": 14}
            await ask("PUT", f"{volumes}/{id}/extend", {"size_gb": 10})
            told.volumes[id] = {"name": made["name"], "size_gb": 10, "snapshot_retention": 14}
            backup = await ask("POST", f"{volumes}/{id}/snapshots")
            told.snapshots.add(backup["Msg"]["backup"]["graph_id"])
            value = f"{told.app}/{turn}"
            await ask("POST", f"/v1/apps/{told.app}/secrets/KEY{turn % 10}", {"value": value})
            told.secrets[f"KEY{turn % 10}"] = value
            await ask("GET", volumes)
            if len(kept) > _HOLD:
                oldest = kept.pop(0)
                await ask("DELETE", f"{volumes}/{oldest}")
                told.volumes[oldest] = None
    except (OSError, EOFError, ValueError, KeyError, TypeError) as problem:
        told.errors.append(f"{told.app}: {problem!r}")
    finally:
        connection.close()


def lost(told: Acknowledged, world: dict[str, list[dict[str, Any]]]) -> list[str]:
    """What was acknowledged to one client and is not in the world."""
    volumes = {each["id"]: each for each in world["volumes"] if each["app"] == told.app}
    problems = []
    for id, fields in told.volumes.items():
        live = volumes.get(id)
        if fields is None:
            if live is not None and live["state"] != "pending_destroy":
                problems.append(f"the deletion of {id}")
        elif live is None or any(live[name] != value for name, value in fields.items()):
            problems.append(f"{id} as {fields}")
    if len(volumes) != len(told.volumes):
        problems.append(f"{len(volumes)} volumes instead of {len(told.volumes)} in {told.app}")
    snapshots = {each["id"] for each in world["snapshots"] if each["app"] == told.app}
    secrets = {each["name"]: each["fingerprint"] for each in world["secrets"] if each["app"] == told.app}
    problems += [f"snapshot {id}" for id in told.snapshots ^ snapshots]
    problems += [
        f"secret {name}" for name, value in told.secrets.items() if not holds(secrets.get(name, ""), value)
    ]
    return problems


async def load(url: str, clients: int, seconds: float) -> tuple[list[Acknowledged], list[str]]:
    """What each client was told, and what of it was lost."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 80
    control = Connection(host, port)
    await control.open()
    told = [Acknowledged(f"app{number}") for number in range(clients)]
    for each in told:
        await control.ask("POST", "/_sandbox/apps", {"name": each.app})
    until = time.monotonic() + seconds
    await asyncio.gather(*(client(Connection(host, port), each, until) for each in told))
    _, world = await control.ask("GET", "/_sandbox/world")
    control.close()
    return told, [problem for each in told for problem in lost(each, world)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.load", description="Load on a sandbox.")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="reconciler-load-") as folder:
        command = [sys.executable, "-m", "reconciler", "sandbox", "--until-stdin-closes"]
        command += ["--db", str(Path(folder) / "world.db")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            url = process.stdout.readline().removeprefix("listening on ").strip()
            told, losses = asyncio.run(load(url, wanted.clients, wanted.seconds))
            process.stdin.close()
    errors = [problem for each in told for problem in each.errors]
    requests, writes = sum(each.requests for each in told), sum(each.writes for each in told)
    slowest = max((each.slowest_s for each in told), default=0.0)
    print(
        f"{wanted.clients} clients for {wanted.seconds:g} s: {requests} requests"
        f" ({requests / wanted.seconds:.0f}/s), {writes} writes, slowest answer {slowest:.2f} s:"
        f" {len(errors)} errors, {len(losses)} lost writes"
    )
    for problem in (*errors[:10], *losses[:10]):
        print(f"  {problem}", file=sys.stderr)
    return 1 if errors or losses or not writes else 0


if __name__ == "__main__":
    sys.exit(main())
