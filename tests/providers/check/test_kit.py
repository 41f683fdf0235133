"""The check against the kit of `reconcile provider serve`: whole, and with defects planted in it."""

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from starlette.requests import Request

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
    resources,
)
from reconciler.providers.kit import Report as Status
from reconciler.providers.kit.intake import Intake, Refusal
from reconciler.providers.kit.oauth import OAuth
from reconciler.providers.kit.resources import Resources
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
    assert {each.group for each in report.results if each.outcome == "not checked"} == {"sign-in"}
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


def _takes_any_url(patch: Patch) -> Plain:
    patch.setattr(signing, "_same_url", lambda *_: True)
    return Plain()


def _takes_any_time(patch: Patch) -> Plain:
    patch.setattr(signing, "_check_time", lambda *_, **__: None)
    return Plain()


def _stores_no_nonces(patch: Patch) -> Plain:
    patch.setattr(Intake, "_claim", lambda *_: True)
    return Plain()


def _takes_any_secret(patch: Patch) -> Plain:
    patch.setattr(signing, "_check_signature", lambda *_: None)
    return Plain()


def _verifies_after_parsing(patch: Patch) -> Plain:
    strict = signing._check_signature

    def lax(signatures: Sequence[str], message: bytes, known: Sequence[bytes], encoding: Any) -> None:
        with suppress(ValueError):
            message = json.dumps(json.loads(message), separators=(",", ":")).encode()
        strict(signatures, message, known, encoding)

    patch.setattr(signing, "_check_signature", lax)
    return Plain()


def _gives_another_config_each_time(patch: Patch) -> Plain:
    return Plain(config=lambda _: {"TOKEN": secrets.token_hex(8)})


def _gives_a_number(patch: Patch) -> Plain:
    patch.setattr(resources, "_check", lambda _: None)
    return Plain(config=lambda resource: {"TOKEN": resource.secret("token"), "PORT": 5432})


def _fails_at_unknown_ids(patch: Patch) -> Plain:
    known = Resources._known

    def strict(self: Resources, id: str) -> Any:
        try:
            return known(self, id)
        except Refusal:
            raise KeyError(id) from None

    patch.setattr(Resources, "_known", strict)
    return Plain()


def _tells_why(patch: Patch) -> Plain:
    signed = Intake.signed

    async def telling(self: Intake, request: Request) -> Mapping[str, Any]:
        try:
            return await signed(self, request)
        except signing.NotAuthentic as refused:
            raise Refusal(401, refused.why) from None

    patch.setattr(Intake, "signed", telling)
    return Plain()


def _deletes_unsigned(patch: Patch) -> Plain:
    signed = Intake.signed

    async def lax(self: Intake, request: Request) -> Mapping[str, Any]:
        return {} if request.method == "DELETE" else await signed(self, request)

    patch.setattr(Intake, "signed", lax)
    return Plain()


def _ignores_patch(patch: Patch) -> Plain:
    async def ignoring(self: Resources, id: str, *_: Any) -> Any:
        return await self.get(id)

    patch.setattr(Resources, "update", ignoring)
    return Plain()


def _never_ready(patch: Patch) -> Plain:
    return Plain(status="provisioning")


def _takes_unsigned_events(patch: Patch) -> Plain:
    async def lax(self: Intake, request: Request) -> tuple[bytes, Mapping[str, Any]]:
        body = await self._body(request)
        return body, json.loads(body)

    patch.setattr(Intake, "event", lax)
    return Plain()


def _sends_no_state(patch: Patch) -> Plain:
    address = OAuth.authorize_url
    patch.setattr(OAuth, "authorize_url", lambda *given: address(*given).replace("state=", "other="))
    return Plain()


DEFECTS: dict[Callable[[Patch], Plain], str] = {
    _takes_any_url: "refusals: DELETE signed for another resource",
    _takes_any_time: "refusals: POST signed too early",
    _stores_no_nonces: "refusals: DELETE replayed",
    _takes_any_secret: "refusals: PATCH under a wrong secret",
    _verifies_after_parsing: "refusals: POST serialised again",
    _gives_another_config_each_time: "repeats: one after the other",
    _gives_a_number: "calls: POST provisions",
    _fails_at_unknown_ids: "calls: GET of an unknown id",
    _tells_why: "refusals: GET signed too late",
    _deletes_unsigned: "refusals: DELETE without a signature",
    _ignores_patch: "calls: PATCH changes it",
    _never_ready: "calls: it becomes ready",
    _takes_unsigned_events: "events: an event unsigned is refused",
    _sends_no_state: "sign-in: with a `state`",
}


@pytest.mark.parametrize("plant", DEFECTS, ids=lambda plant: plant.__name__.strip("_"))
def test_a_defect_planted_in_the_kit_is_found(
    tmp_path: Path, monkeypatch: Patch, plant: Callable[[Patch], Plain]
) -> None:
    with running(tmp_path, plant(monkeypatch)) as subject:
        report = checked(subject, DEFECTS[plant])
    assert list(failed(report)) == [DEFECTS[plant]]
