"""The check against the kit of `reconcile provider serve`: whole, and with defects planted in it."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from reconciler.providers.check.bench import SignInSubject, Subject
from reconciler.providers.kit import (
    Cost,
    ProviderSettings,
    Provisioned,
    Resource,
    SignInSettings,
    Visitor,
    create_app,
    intake,
)
from reconciler.providers.kit import Report as Status
from reconciler.providers.kit.intake import Intake
from reconciler.services import signing
from tests.providers.check.bout import HastyClock, checked, failed
from tests.providers.check.reference import SIGNING, USER, WEBHOOK, listening

Patch = pytest.MonkeyPatch


@dataclass
class Plain:
    """Five functions that keep nothing but a status. `config`: what provisioning gives."""

    config: Callable[[Resource], dict[str, Any]] = lambda resource: {"TOKEN": resource.secret("token")}
    status: str = "ready"

    async def provision(self, resource: Resource) -> Provisioned:
        return Provisioned(self.config(resource))

    async def update(self, resource: Resource) -> None:
        return None

    async def get(self, resource: Resource, visitor: Visitor | None) -> Status:
        return Status(self.status)

    async def deprovision(self, resource: Resource) -> None:
        return None

    async def costs(self, resources: Sequence[Resource]) -> Sequence[Cost]:
        return [Cost(resource.id, "1.50") for resource in resources]


@dataclass
class Slow(Plain):
    """Provisioning ends only after the check has waited once."""

    clock: HastyClock = field(default_factory=HastyClock)
    begun: dict[str, int] = field(default_factory=dict)

    async def provision(self, resource: Resource) -> Provisioned:
        sleeps = self.begun.setdefault(resource.order.id, self.clock.sleeps)
        await anyio.to_thread.run_sync(self.clock.wait_for_another_sleep, sleeps)
        return await Plain.provision(self, resource)


@contextmanager
def running(folder: Path, functions: Plain, auth_url: str = "http://127.0.0.1:9") -> Iterator[Subject]:
    """The kit over `functions`, and how it is checked."""

    def make(url: str) -> Any:
        settings = ProviderSettings(
            public_url=url,
            store=folder / "provider.db",
            signing_secrets=[SIGNING],
            sign_in=SignInSettings(auth_url, "client", "client secret"),
            rate=0,
            answer_s=1.0,
        )
        return create_app(settings, functions)

    with listening(make) as url:
        yield Subject(
            base_url=url,
            signing_secret=SIGNING,
            webhook_secret=WEBHOOK,
            costs_path="/costs",
            sign_in=SignInSubject(auth_url, USER),
            ready_s=6.0,
            slow_body_s=15.0,
        )


def test_the_kit_passes_every_check(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(intake, "BODY_S", 1.0)
    with running(tmp_path, Plain()) as subject:
        report = checked(replace(subject, sign_in=None))
    assert failed(report) == {}
    assert {result.group for result in report.results if result.outcome == "not checked"} == {"sign-in"}
    assert report.count("passed") >= 290
    assert report.left == []


def test_a_provider_that_takes_its_time_passes(tmp_path: Path) -> None:
    clock = HastyClock()
    with running(tmp_path, Slow(clock=clock)) as subject:
        report = checked(
            replace(subject, ready_s=240.0), "calls: POST*", "calls: it*", "repeats: one*", clock=clock
        )
    assert failed(report) == {}
    assert report.count("passed") == 3
    assert clock.sleeps >= 2


# A defect of the kit, and the check that finds it. `test_reference` has defects for all other checks.
DEFECTS: dict[str, tuple[Callable[[Patch], Plain], str]] = {
    "takes any url": (
        lambda patch: patched(patch, signing, "_same_url", lambda *_: True),
        "refusals: DELETE signed for another resource",
    ),
    "takes any time": (
        lambda patch: patched(patch, signing, "_check_time", lambda *_, **__: None),
        "refusals: POST signed too early",
    ),
    "takes any secret": (
        lambda patch: patched(patch, signing, "check_signature", lambda *_: None),
        "refusals: PATCH under a wrong secret",
    ),
    "stores no nonces": (
        lambda patch: patched(patch, Intake, "_claim", lambda *_: True),
        "refusals: DELETE replayed",
    ),
    "gives another config each time": (
        lambda patch: Plain(config=lambda _: {"TOKEN": secrets.token_hex(8)}),
        "repeats: one after the other",
    ),
    "is never ready": (lambda patch: Plain(status="provisioning"), "calls: it becomes ready"),
}


def patched(patch: Patch, owner: object, name: str, defect: object) -> Plain:
    patch.setattr(owner, name, defect)
    return Plain()


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_planted_in_the_kit_is_found(tmp_path: Path, monkeypatch: Patch, name: str) -> None:
    plant, found_by = DEFECTS[name]
    with running(tmp_path, plant(monkeypatch)) as subject:
        report = checked(subject, found_by)
    assert list(failed(report)) == [found_by]
