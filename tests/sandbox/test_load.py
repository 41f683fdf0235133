"""Many clients at once, and a process killed while they write. The full load is `python -m bench.load`."""

import asyncio
from pathlib import Path

import pytest

from bench.load import Acknowledged, Connection, load, lost
from reconciler.sandbox import running_at, serving
from tests.sandbox.test_http import END_S, served

CLIENTS = 20
ENOUGH = 300
VOLUMES = "/v1/apps/shop/volumes"


def test_nothing_is_lost_or_refused_under_load() -> None:
    with serving() as url:
        clients, losses = asyncio.run(
            load(url, CLIENTS, 2.0)
        )  # a busy machine lets each of them write once, too
    assert [problem for client in clients for problem in client.errors] == []
    assert losses == []
    assert all(item.writes for item in clients)


VOLUME = {"id": "vol_1", "app": "a", "name": "data", "size_gb": 10, "state": "created"}


@pytest.mark.parametrize(
    ("volumes", "problem"),
    [
        ([VOLUME], ""),
        ([], "vol_1 as"),
        ([VOLUME | {"size_gb": 3}], "vol_1 as"),
        ([VOLUME, VOLUME | {"id": "vol_2"}], "the deletion of vol_2"),
        ([VOLUME, VOLUME | {"id": "vol_3"}], "2 volumes instead of 1"),
    ],
)
def test_a_lost_write_is_noticed(volumes: list[dict[str, object]], problem: str) -> None:
    client = Acknowledged("a", volumes={"vol_1": {"name": "data", "size_gb": 10}})
    if problem.startswith("the deletion"):
        client.volumes["vol_2"] = None
    problems = lost(client, {"volumes": volumes, "snapshots": [], "secrets": []})
    assert problem in " ".join(problems)
    assert bool(problems) is bool(problem)


def test_nothing_acknowledged_is_lost_when_the_process_is_killed_amid_writes(tmp_path: Path) -> None:
    db = tmp_path / "world.db"
    sizes: dict[str, int] = {}
    with served(db=str(db)) as (process, first):
        host, port = first.base_url.host, first.base_url.port or 80

        async def write() -> None:
            connection = Connection(host, port)
            await connection.open()
            try:
                while True:
                    _, made = await connection.ask(
                        "POST", VOLUMES, {"name": "data", "require_unique_zone": False}
                    )
                    sizes[made["id"]] = 3
                    await connection.ask("PUT", f"{VOLUMES}/{made['id']}/extend", {"size_gb": 10})
                    sizes[made["id"]] = 10
                    if len(sizes) >= ENOUGH:
                        process.kill()
            except (OSError, EOFError):
                connection.close()

        async def all_clients() -> None:
            await asyncio.gather(*(write() for _ in range(CLIENTS)))

        asyncio.run(all_clients())
        process.wait(END_S)
    assert running_at(db) is None
    with served(db=str(db)) as (_, client):
        live = {item["id"]: item["size_gb"] for item in client.get(VOLUMES).json()}
    assert len(sizes) >= ENOUGH
    assert {id: live.get(id) for id, size in sizes.items() if size == 10 != live.get(id)} == {}
    assert set(sizes) <= set(live)
    assert len(live) <= len(sizes) + CLIENTS  # no more than one unanswered create each
