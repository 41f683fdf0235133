"""How many requests a plan and an apply send to an object store: each costs a runner a round trip."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.api import apply, create_state, open_project, plan
from reconciler.state.places.objects import bucket as obstore_bucket
from tests.api.test_program import VARIABLES
from tests.cli.harness import Sandbox, serving
from tests.inprocess import volume
from tests.state.objects.doubles import Counting, memory_bucket


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with serving("--clock", "x600") as sandbox:
        yield sandbox


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Counting:
    bucket = Counting(memory_bucket())
    monkeypatch.setattr(obstore_bucket, "open_bucket", lambda *_: bucket)
    return bucket


def test_a_plan_and_an_apply_ask_an_object_store_for_little(
    tmp_path: Path, sandbox: Sandbox, bucket: Counting
) -> None:
    app = sandbox.app("shop")
    manifest = tmp_path / "manifests/all.yaml"
    manifest.parent.mkdir()
    (tmp_path / "reconcile.yaml").write_text(
        f"platform: {{base_url: '{sandbox.url}'}}\nstate: s3://states/team\n"
    )

    def begin(size_gb: int) -> None:
        manifest.write_text(volume(app=app, size_gb=size_gb))
        bucket.calls.clear()

    async def applied(*, made: bool = True) -> Counter[str]:
        async with open_project(tmp_path, variables=VARIABLES) as opened:
            if not made:
                await create_state(opened)
            done = await apply(opened, approve=lambda shown: True)
            assert [result.outcome for result in done.results] == ["done"]
        return Counter(bucket.calls)

    async def planned() -> Counter[str]:
        async with open_project(tmp_path, variables=VARIABLES, read_only=True) as opened:
            assert len((await plan(opened)).changes) == 1
        return Counter(bucket.calls)

    begin(10)
    asyncio.run(applied(made=False))
    begin(12)
    asyncio.run(applied())  # keeps a look at the volume, as the first run of each six hours does
    begin(15)
    assert asyncio.run(planned()) == {"get root": 2, "list heads": 3, "get heads": 2}
    begin(15)
    sent = asyncio.run(applied())
    assert sent.pop("get leases") <= 2  # one for each check that comes long after its intent
    assert sent == {
        "get root": 10,
        "list heads": 8,
        "get heads": 3,
        "replace root": 1,  # how far the scopes have come, at the begin of the lease
        "create leases": 1,
        "replace heads": 5,  # the lease, and four commits
        "delete leases": 1,
    }
