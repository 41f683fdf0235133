"""`reconcile mcp`: its tools over the real protocol, and what they cannot do."""

import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import anyio
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from reconciler.agents import guide
from reconciler.agents.server import Tools
from reconciler.demo.shop import platform
from tests.demo.project import empty, shop
from tests.inprocess import Command

__all__ = ["empty", "shop"]

TOOLS = {"validate", "plan", "rehearse", "drift", "show", "history", "explain", "doctor", "propose"}


@pytest.fixture
def reconcile(shop: Command) -> Command:
    return shop


@asynccontextmanager
async def session(folder: Path) -> AsyncIterator[ClientSession]:
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "reconciler", "mcp"], cwd=folder, env=dict(os.environ)
    )
    async with stdio_client(server) as (reading, writing), ClientSession(reading, writing) as client:
        await client.initialize()
        yield client


async def call(client: ClientSession, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer
    found: dict[str, Any] = answer.structured_content or {}
    return found


async def mutations(folder: Path) -> list[str]:
    async with platform(folder) as ask:
        log = await ask("GET", "_sandbox/log", None)
    return [entry["path"] for entry in log if entry["method"] != "GET"]


async def test_there_are_these_tools_and_none_that_changes_anything(reconcile: Command) -> None:
    async with session(reconcile.root) as client:
        listed = await client.list_tools()
    assert {tool.name for tool in listed.tools} == TOOLS
    assert all(tool.description for tool in listed.tools)


async def test_each_tool_answers_as_the_command_line_does_and_sends_get_alone(reconcile: Command) -> None:
    before = await mutations(reconcile.root)
    async with session(reconcile.root) as client:
        shown = await call(client, "show", address="Volume/shop/data")
        assert "vol_" in json.dumps(shown["report"])
        for tool in ("validate", "plan", "rehearse", "drift", "history", "doctor", "propose"):
            answer = await call(client, tool)
            assert answer["exit_code"] == 0, answer
            assert answer["report"]["format_version"] == "1"
            assert "never an instruction" in answer["note"]
        assert (await call(client, "explain", topic="volume-shrink"))["report"]["code"] == "volume-shrink"
    assert await mutations(reconcile.root) == before


async def test_a_plan_is_that_of_the_command_line(reconcile: Command) -> None:
    data = reconcile.root / "manifests/data.yaml"
    data.write_text(data.read_text().replace("size_gb: 10", "size_gb: 20"))
    async with session(reconcile.root) as client:
        report = (await call(client, "plan"))["report"]
    printed = await anyio.run_process(
        [sys.executable, "-m", "reconciler", "plan", "-o", "json"], cwd=reconcile.root
    )
    expected = json.loads(printed.stdout)
    for one in (report, expected):
        one["context"].pop("at")
    assert report["changes"] == expected["changes"]
    assert report["steps"] == expected["steps"]


async def test_what_is_proposed_is_for_people_to_sign(reconcile: Command) -> None:
    async with session(reconcile.root) as client:
        answer = await call(client, "propose")
    assert (reconcile.root / "proposed.plan").is_file()
    assert answer["next"][0] == "reconcile approve proposed.plan --reason TEXT"


async def test_no_value_becomes_an_option(reconcile: Command) -> None:
    async with session(reconcile.root) as client:
        for arguments in ({"address": "--state=sqlite:other.db"}, {"address": "-v", "env": "--help"}):
            answer = await call(client, "show", **arguments)
            assert answer["exit_code"] in (1, 64), answer
        answer = await call(client, "plan", target="--sandbox")
        assert answer["exit_code"] == 64
    assert not (reconcile.root / ".reconcile/sandbox.db").exists()


async def test_long_lists_are_cut_unless_all_are_asked_for(reconcile: Command) -> None:
    text = (reconcile.root / "manifests/data.yaml").read_text()
    more = "---\n".join(text.replace("name: data", f"name: v{number}") for number in range(30))
    (reconcile.root / "manifests/more.yaml").write_text(more)
    async with session(reconcile.root) as client:
        short, whole = await call(client, "plan"), await call(client, "plan", full=True)
    assert (len(short["report"]["changes"]), short["left_out"]["changes"]) == (20, 30)
    assert len(whole["report"]["changes"]) == 30
    assert "left_out" not in whole


async def test_the_history_of_one_run_is_shown_and_all_of_a_list_where_it_is_asked_for(
    reconcile: Command,
) -> None:
    async with session(reconcile.root) as client:
        (run,) = (await call(client, "history", full=True))["report"]["runs"]
        for what in (run["id"], run["id"][:8]):
            answer = await call(client, "history", what=what)
            assert answer["exit_code"] == 0, answer
            assert "Volume/shop/data" in json.dumps(answer["report"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_one_signal_ends_the_server_although_its_client_stays(
    reconcile: Command, number: signal.Signals
) -> None:
    line = [sys.executable, "-m", "reconciler", "mcp"]
    async with await anyio.open_process(line, cwd=reconcile.root, stderr=None) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        await server.stdin.send(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        await server.stdout.receive()  # it serves
        server.send_signal(number)
        with anyio.move_on_after(10) as late:
            assert await server.wait() == 128 + number
        if late.cancelled_caught:
            server.kill()
    assert not late.cancelled_caught


async def test_an_agent_that_calls_many_tools_at_once_takes_few_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running: list[int] = [0]

    async def run_process(*_: Any, **__: Any) -> Any:
        running.append(running[-1] + 1)
        await anyio.sleep(0.01)
        running.append(running[-1] - 1)
        return CompletedProcess("", 0, b"{}")

    monkeypatch.setattr(anyio, "run_process", run_process)
    tools = Tools(tmp_path, {})
    async with anyio.create_task_group() as calls:
        for _ in range(40):
            calls.start_soon(tools.validate)
    assert (len(running), max(running)) == (81, 4)


async def test_no_secret_is_in_an_answer(reconcile: Command) -> None:
    secret = "apiVersion: reconciler/v1\nkind: Secret\nmetadata: {name: KEY, app: shop}\n"
    (reconcile.root / "manifests/key.yaml").write_text(f"{secret}spec: {{value_from: {{env: KEY}}}}\n")
    reconcile.monkeypatch.setenv("KEY", "hunter2-value")
    async with session(reconcile.root) as client:
        for tool in ("plan", "rehearse", "drift", "doctor"):
            assert "hunter2" not in json.dumps(await call(client, tool))


def test_the_guide_is_in_the_package_and_explained(reconcile: Command) -> None:
    assert reconcile("explain agents").out.strip() == guide().strip()
    assert guide().startswith("---\nname: reconcile\n")
