"""A command that only reads cannot send anything else, whoever asks its clients to."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from reconciler.core.errors import Refused
from reconciler.core.steps import Call
from reconciler.drift import find as drifting
from reconciler.project.project import read_all
from reconciler.secrets.sensitive import Sensitive
from reconciler.services.platform import platform_client
from reconciler.services.provider import provider_client
from reconciler.services.transport import GetOnly
from tests.drift.stage import VOLUME, Stage
from tests.services.script import Script, SimulatedClock, reply

URL = "https://platform.example/v1/apps/shop/volumes"


def line() -> Script:
    return Script(SimulatedClock(), (reply("[]"),))


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "get", "HEAD", "OPTIONS", "QUERY"])
async def test_the_last_door_lets_nothing_but_get_pass(method: str) -> None:
    script = line()
    with pytest.raises(Refused, match="this command only reads"):
        await GetOnly(script).request(method, URL, headers={}, body=None, deadline_s=1)
    with pytest.raises(Refused):
        await GetOnly(script).request("GET", URL, headers={}, body=b"{}", deadline_s=1)
    assert script.sent == []
    assert (await GetOnly(script).request("GET", URL, headers={}, body=None, deadline_s=1)).status == 200


def _platform(script: Script) -> Any:
    return platform_client(script, "https://platform.example", lambda: "t0ken", script.clock, read_only=True)


def _provider(script: Script) -> Any:
    secret, nonce = (lambda: Sensitive("s")), (lambda: "nonce")
    url = "https://acme.example"
    return provider_client("acme", script, url, secret, script.clock, new_nonce=nonce, read_only=True)


@pytest.mark.parametrize("client", [_platform, _provider])
async def test_also_past_the_clients_own_check_nothing_is_sent(client: Callable[[Script], Any]) -> None:
    """As a method that somebody adds later would: with the client's innermost request."""
    script = line()
    with pytest.raises(Refused):
        await client(script)._request("POST", "/v1/apps/shop/volumes", {"name": "x"}, 1)
    with pytest.raises(Refused):
        await client(script).send(Call("POST", "/v1/apps/shop/volumes", {"name": "x"}), id_path=None)
    assert script.sent == []


def test_a_mutation_planted_in_drift_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(tmp_path)
    stage.write(VOLUME)
    script = line()
    project = replace(stage.project(), platform=_platform(script))

    async def planted(project: Any, *rest: Any) -> None:
        await read_all(project, *rest)
        await project.platform.send(Call("DELETE", "/v1/apps/shop/volumes/vol_1", None), id_path=None)

    monkeypatch.setattr(drifting, "read_all", planted)
    with pytest.raises(Refused, match="DELETE /v1/apps/shop/volumes/vol_1 is not sent"):
        anyio.run(drifting.find_drift, project, stage.desired())
    assert [sent.method for sent in script.sent] == ["GET"]
