"""The policies of docs/how-to/object-stores.md are enough, and not more than that, as moto enforces them."""

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.request import Request, urlopen

import boto3  # type: ignore[import-untyped]
import pytest

from reconciler.core.errors import StoreError
from reconciler.state.log.store import LogStore
from reconciler.state.places.objects.bucket import open_bucket
from reconciler.state.store import Event
from tests.state.objects.conftest import S3
from tests.state.objects.servers import BUCKET
from tests.state.worlds import SimulatedClock, entry, record

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        "TEST_S3" in os.environ or "TEST_AZURE" in os.environ, reason="moto enforces policies"
    ),
]

PAGE = Path(__file__).parents[3] / "docs/how-to/object-stores.md"


@dataclass(frozen=True)
class Roles:
    """Variables of somebody with the policy to plan, and of somebody with that to apply."""

    plans: dict[str, str]
    applies: dict[str, str]


@pytest.fixture
def roles(s3: S3) -> Iterator[Roles]:
    keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
    iam = boto3.client("iam", endpoint_url=s3.endpoint, **keys)
    prefix = s3.url.partition(f"{BUCKET}/")[2]
    made = []
    policies = re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    for number, policy in enumerate(policies):
        json.loads(policy)
        name = f"{prefix.rpartition('/')[2]}-{number}"
        own = policy.replace("team-state/shop/", f"{BUCKET}/{prefix}/").replace("team-state", BUCKET)
        iam.create_user(UserName=name)
        if "s3:DeleteObject" in own:  # moto asks for this right on the bucket, not on its objects
            keys_of_ours = f'"arn:aws:s3:::{BUCKET}/{prefix}/*"'
            own = own.replace(keys_of_ours, f'[{keys_of_ours}, "arn:aws:s3:::{BUCKET}"]')
        iam.put_user_policy(UserName=name, PolicyName="state", PolicyDocument=own)
        key = iam.create_access_key(UserName=name)["AccessKey"]
        secrets = {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}
        made.append({**s3.variables, **secrets})
    enforce(s3, "0")
    try:
        yield Roles(*made)
    finally:
        enforce(s3, "inf")


def enforce(s3: S3, after: str) -> None:
    """Policies count after this number of requests."""
    plain = {"Content-Type": "text/plain"}
    urlopen(Request(f"{s3.endpoint}/moto-api/reset-auth", after.encode(), plain, method="POST")).close()


@pytest.fixture
def opened(s3: S3, clock: SimulatedClock) -> Callable[[dict[str, str]], LogStore]:
    return lambda variables: LogStore(open_bucket(s3.url, variables), clock)


async def test_the_policies_of_the_page_are_enough(
    roles: Roles, opened: Callable[[dict[str, str]], LogStore]
) -> None:
    store = opened(roles.applies)
    await store.probe()
    assert await store.create()
    lease = await store.lease(["shop"], "me")
    await store.commit(lease, [entry(Event.INTENT)], [record()])
    await store.check(lease, 5)
    await store.release(lease)
    reader = opened(roles.plans)
    assert await reader.load() == await store.load()
    assert await reader.fingerprint_key() == await store.fingerprint_key()
    assert len(await reader.journal()) == 1
    assert await reader.holders(["shop"]) == {}
    await reader.verify()
    for attempt in (reader.lease(["blog"], "me"), reader.probe()):
        with pytest.raises(StoreError, match="these credentials may not write the state"):
            await attempt


async def test_a_prefix_that_a_policy_does_not_name_is_closed(
    roles: Roles, s3: S3, clock: SimulatedClock
) -> None:
    other = replace(s3, url=f"s3://{BUCKET}/other")
    with pytest.raises(StoreError, match="these credentials may not read the state"):
        await LogStore(open_bucket(other.url, roles.applies), clock).load()
