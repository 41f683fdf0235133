from typing import Any

import pytest

from reconciler.services.transport import HttpTransport


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["direct", "httpx"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each test runs with requests over lines of their own, and over httpx, which keeps no connection."""
    opened = HttpTransport.__init__

    def init(self: HttpTransport, base_url: str, **options: Any) -> None:
        opened(self, base_url, direct=request.param == "direct", **options)

    monkeypatch.setattr(HttpTransport, "__init__", init)
    way: str = request.param
    return way
