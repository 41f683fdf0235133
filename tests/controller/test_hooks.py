"""What a controller hears: only from those who can sign, once, and so that a restart forgets nothing."""

import json
import math
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import httpx
import pytest
from starlette.applications import Starlette

from reconciler.cli.controller import _door as made_door
from reconciler.controller import hooks, memory
from reconciler.controller.loop import Controller
from reconciler.controller.web import application
from reconciler.core.clock import SystemClock
from reconciler.core.errors import ManifestError, SecretUnavailable, StoreError
from reconciler.core.model import Address, Lifecycle, StateRecord
from reconciler.core.steps import SecretRef
from reconciler.execution.decisions import Actor
from reconciler.project.secret import secret_sources
from reconciler.project.settings import find_settings, parse_settings
from reconciler.project.store import Opening, open_state
from reconciler.services import signing
from reconciler.state.places.sqlite.store import SqliteStore
from reconciler.state.spooling import Spooling
from reconciler.state.store import State
from tests.cli.test_controller import Log, controlling
from tests.providers.provisioning.conftest import Scene
from tests.providers.serve import send
from tests.revisions.repository import ISOLATED, commit, git
from tests.state.doubles import make_state

SECRET, WEBHOOKS = "hook-secret-c1f0", "webhook-secret-3b7d"
SETTINGS = """
manifests: [manifests]
platform: {base_url: "http://127.0.0.1:9"}
controller:
  source: {ref: origin/main, fetch: 1h}
  hooks:
    github: {secret_from: {env: HOOK_SECRET}}
    gitlab: {secret_from: {file: hook.txt}}
    gitea: {secret_from: {env: HOOK_SECRET}}
    providers: true
"""
PROVIDER = """---
apiVersion: reconciler/v1
kind: ExtensionProvider
metadata: {name: NAME}
spec: {base_url: "http://127.0.0.1:9", signing_secret_from: {env: SIGNING}REST}
"""
EXTENSION = """---
apiVersion: reconciler/v1
kind: Extension
metadata: {name: db, app: studio}
spec: {provider: acme, organization_id: o, organization_name: O, user_id: u, user_email: e, user_role: admin}
"""
RECORDED = {  # id and name at the provider, by scope
    "shop": ("res_1", "shop-db"),
    "lab": ("res_2", "lab-db"),
    "attic": ("res_3", "attic-db"),
}
NO_EFFECT: tuple[bool, Mapping[str, str]] = (False, {})


def declared(name: str, rest: str = ", webhook_secret_from: {env: ACME_WEBHOOKS}") -> str:
    return PROVIDER.replace("NAME", name).replace("REST", rest)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with extensions of `acme` in three apps, one of them not yet made, and one of `other`."""
    (tmp_path / "manifests").mkdir()
    (tmp_path / "reconcile.yaml").write_text(SETTINGS)
    (tmp_path / "hook.txt").write_text(SECRET)
    base64 = ", webhook_secret_from: {env: ACME_WEBHOOKS}, webhook_encoding: base64"
    text = declared("acme") + declared("other", base64) + declared("deaf", "") + EXTENSION
    (tmp_path / "manifests/main.yaml").write_text(text)
    (tmp_path / ".gitignore").write_text(".reconcile/\nremote.git/\n")
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "remote.git")
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "remote", "add", "origin", "remote.git")
    commit(tmp_path)
    git(tmp_path, "push", "-q", "origin", "main")
    make_state(tmp_path)
    anyio.run(record, tmp_path)
    for name in ("RECONCILE_BASE_URL", "RECONCILE_STATE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    monkeypatch.setenv("ACME_WEBHOOKS", WEBHOOKS)
    monkeypatch.setattr(hooks, "_PER_S", 0.0)  # no limit
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def record(root: Path) -> None:
    store = SqliteStore(root / ".reconcile/state.db", SystemClock())
    for app, (id, name) in RECORDED.items():
        sent = {"provider": "other" if app == "attic" else "acme", "name": "asked", "replacement_name": name}
        at = datetime(2026, 1, 1, tzinfo=UTC)
        made = StateRecord(Address("Extension", "db", app), id, app, sent, Lifecycle(), at)
        await store.commit(await store.lease([app], "test"), [], [made])
    await store.close()


async def kept(root: Path) -> State:
    store = SqliteStore(root / ".reconcile/state.db", SystemClock(), read_only=True)
    try:
        return await store.load()
    finally:
        await store.close()


class Ears:
    """A controller that has read its manifests, and its hooks."""

    def __init__(self, root: Path, controller: Controller, app: Starlette, client: httpx.AsyncClient) -> None:
        self.root, self.controller, self.app, self.client = root, controller, app, client

    async def post(self, path: str, body: bytes = b"{}", headers: Any = ()) -> int:
        answer = await self.client.post(f"/hooks/{path}", content=body, headers=headers)
        return answer.status_code

    async def effects(self) -> tuple[bool, Mapping[str, str]]:
        """Whether a fetch was asked for since the last time, and by scope, which webhook asks for a look."""
        fetches, self.controller._fetched_s = self.controller._fetched_s == -math.inf, 0.0
        orders = memory.read(await kept(self.root)).orders
        return fetches, {scope: order.now for scope, order in orders.items() if order.now}


@asynccontextmanager
async def hearing(root: Path, token: str = "") -> AsyncIterator[Ears]:
    with ExitStack() as running:
        door = made_door("", None, None, running, sandbox=False)
        controller = Controller(door, anyio.Event())
        await door.fetch("")
        controller.loaded = await door.load()
        controller._fetched_s = 0.0
        app = application(list, token, hooks.routes([controller]))
        async with caller(app) as client:
            yield Ears(root, controller, app, client)


def caller(app: Starlette, address: str = "127.0.0.1") -> httpx.AsyncClient:
    wire = httpx.ASGITransport(app, client=(address, 1))
    return httpx.AsyncClient(transport=wire, base_url="http://hooks.test")


def webhook(resource: Any = None, *, action: str = "resource.updated", late_s: float = 0.0) -> bytes:
    """A body as providers send it; each one is another one."""
    said = {"timestamp": str(int(time.time() - late_s)), "action": action, "resource": resource or {}}
    return json.dumps({**said, "salt": random.random()}).encode()


def signed(body: bytes, secret: str = WEBHOOKS, encoding: signing.Encoding = "hex") -> Mapping[str, str]:
    return {"x-signature": signing.signature(secret.encode(), body, encoding)}


def digest(body: bytes) -> str:
    return sha256(body).hexdigest()


HEX = signing.signature(SECRET.encode(), b"{}")
GITS = {  # by host: who may send, and who may not
    "github": (
        [("x-hub-signature-256", f"sha256={HEX}")],
        [
            [],
            [("x-hub-signature-256", HEX)],
            [("x-hub-signature-256", f"sha256={signing.signature(b'other', b'{}')}")],
            [("x-hub-signature-256", f"sha256={signing.signature(b'', b'{}')}")],
            [("x-hub-signature-256", f"sha256={HEX}")] * 2,
            [("x-gitea-signature", HEX)],
            [("x-gitlab-token", SECRET)],
        ],
    ),
    "gitea": (
        [("x-gitea-signature", HEX.upper())],
        [[], [("x-gitea-signature", HEX[:-1])], [("x-hub-signature-256", f"sha256={HEX}")]],
    ),
    "gitlab": (
        [("x-gitlab-token", SECRET)],
        [[], [("x-gitlab-token", "")], [("x-gitlab-token", SECRET[:-1])], [("x-gitlab-token", "\xe9")]],
    ),
}


@pytest.mark.parametrize("host", GITS)
def test_a_git_hook_that_its_host_signed_has_the_source_fetched(root: Path, host: str) -> None:
    good, bad = GITS[host]

    async def main() -> None:
        async with hearing(root) as ears:
            for headers in bad:
                sent = [(name, value.encode("latin-1")) for name, value in headers]
                assert await ears.post(f"git/{host}", headers=sent) == 401, headers
                assert await ears.effects() == NO_EFFECT
            assert await ears.post(f"git/{host}", headers=good) == 202
            assert await ears.effects() == (True, {})
            assert ears.controller._pause.cancel_called, "it looks at once"
            if host != "gitlab":
                assert await ears.post(f"git/{host}", b"{ }", good) == 401
            assert await ears.post("git/bitbucket", headers=good) == 401
            assert await ears.post("git/providers", headers=good) == 401

    anyio.run(main)


@pytest.mark.parametrize(
    ("resource", "scopes"),
    [
        ({"id": "res_1", "name": "lab-db"}, {"shop"}),
        ({"id": "new", "name": "lab-db"}, {"lab"}),
        ({"id": "new", "name": "asked"}, {"shop", "lab", "studio"}),
        ({"id": "res_3"}, {"shop", "lab", "studio"}),
        ({"id": [], "name": {"a": None}}, {"shop", "lab", "studio"}),
    ],
)
def test_the_scopes_of_the_extension_that_a_webhook_names_are_looked_at(
    root: Path, resource: Any, scopes: set[str]
) -> None:
    async def main() -> None:
        async with hearing(root) as ears:
            body = webhook(resource)
            assert await ears.post("providers/acme", body, signed(body)) == 202
            assert await ears.effects() == (False, dict.fromkeys(scopes, digest(body)))
            assert ears.controller._pause.cancel_called, "it looks at once"

    anyio.run(main)


def test_a_webhook_counts_once_also_after_a_restart(root: Path) -> None:
    body, other = webhook({"id": "res_1"}), webhook({"id": "res_1"})
    ordered = {"shop": digest(other)}

    async def main() -> None:
        async with hearing(root) as ears:
            assert await ears.post("providers/acme", body, signed(body)) == 202
            assert await ears.post("providers/acme", other, signed(other)) == 202
            assert await ears.post("providers/acme", body, signed(body)) == 401
            assert await ears.effects() == (False, ordered)
        async with hearing(root) as ears:
            assert await ears.post("providers/acme", body, signed(body)) == 401
            assert await ears.effects() == (False, ordered)
            third = webhook({"id": "res_1"})
            statuses: list[int] = []

            async def post() -> None:
                statuses.append(await ears.post("providers/acme", third, signed(third)))

            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(post)
            assert sorted(statuses) == [202, 401, 401]

    anyio.run(main)


def test_webhooks_are_forgotten_once_their_time_would_be_refused(root: Path) -> None:
    async def heard(now_s: float, digest: str) -> list[str]:
        async with opened(root) as (store, actor):
            await memory.hear(store, actor, {"shop"}, digest, now_s)
            note = (await store.load()).remembered["controller-orders"].applied
        return sorted(note["shop"]["heard"])

    async def main() -> None:
        assert await heard(0.0, "a") == ["a"]
        assert await heard(signing.KEEP_S, "b") == ["a", "b"]
        async with opened(root) as (store, actor):
            await memory.order(store, actor, "shop", suspended="we look into it")
        assert await heard(signing.KEEP_S + 1, "c") == ["b", "c"]
        assert memory.read(await kept(root)).orders["shop"] == memory.Order("we look into it", "c")

    anyio.run(main)


@asynccontextmanager
async def opened(root: Path) -> AsyncIterator[tuple[Spooling, Actor]]:
    async with open_state(find_settings(root, {}), Opening(f"sqlite:{root}/.reconcile/state.db")) as store:
        yield store, Actor(SystemClock(), "test")


REFUSED: Mapping[str, tuple[int, str, Callable[[], tuple[bytes, Mapping[str, str]]]]] = {
    "unsigned": (401, "acme", lambda: (webhook(), {})),
    "of another secret": (401, "acme", lambda: (body := webhook(), signed(body, "other"))),
    "of an empty secret": (401, "acme", lambda: (body := webhook(), signed(body, ""))),
    "in another encoding": (401, "acme", lambda: (body := webhook(), signed(body, encoding="base64"))),
    "hex for base64": (401, "other", lambda: (body := webhook(), signed(body))),
    "too old": (401, "acme", lambda: (body := webhook(late_s=302), signed(body))),
    "of the future": (401, "acme", lambda: (body := webhook(late_s=-302), signed(body))),
    "without a time": (401, "acme", lambda: (b"{}", signed(b"{}"))),
    "not JSON": (401, "acme", lambda: (b"[", signed(b"["))),
    "without a secret": (401, "deaf", lambda: (body := webhook(), signed(body))),
    "of nobody": (401, "nobody", lambda: (body := webhook(), signed(body))),
    "of an unknown action": (400, "acme", lambda: (body := webhook(action="resource.sold"), signed(body))),
    "about no resource": (400, "acme", lambda: (body := webhook([1]), signed(body))),
    "too large": (413, "acme", lambda: (body := webhook("x" * 1024 * 1024), signed(body))),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_does_not_prove_its_sender_and_time_has_no_effect(root: Path, why: str) -> None:
    status, provider, make = REFUSED[why]
    body, headers = make()

    async def main() -> None:
        async with hearing(root) as ears:
            assert await ears.post(f"providers/{provider}", body, headers) == status
            assert await ears.effects() == NO_EFFECT

    anyio.run(main)


def test_each_provider_has_its_own_encoding(root: Path) -> None:
    async def main() -> None:
        async with hearing(root) as ears:
            body = webhook()
            assert await ears.post("providers/other", body, signed(body, encoding="base64")) == 202
            assert (await ears.effects())[1] == {"attic": digest(body)}

    anyio.run(main)


def test_who_is_not_in_the_settings_is_not_heard(root: Path) -> None:
    (root / "reconcile.yaml").write_text("manifests: [manifests]\n")

    async def main() -> None:
        async with hearing(root) as ears:
            body = webhook()
            assert await ears.post("providers/acme", body, signed(body)) == 401
            for host, (good, _) in GITS.items():
                assert await ears.post(f"git/{host}", headers=good) == 401
            assert await ears.effects() == NO_EFFECT

    anyio.run(main)


def test_what_cannot_be_kept_now_is_answered_so_that_it_comes_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = webhook()

    async def full(*_: Any) -> None:
        raise StoreError("the disk is full")

    async def main() -> None:
        async with hearing(root) as ears:
            with monkeypatch.context() as patch:
                patch.setattr(SqliteStore, "commit", full)
                patch.setattr(Spooling, "spool", full)
                assert await ears.post("providers/acme", body, signed(body)) == 503
            assert await ears.effects() == NO_EFFECT
            assert await ears.post("providers/acme", body, signed(body)) == 202
            monkeypatch.delenv("HOOK_SECRET")
        async with hearing(root) as ears:
            assert await ears.post("git/github", headers=GITS["github"][0]) == 503
            assert (await ears.effects())[0] is False

    anyio.run(main)


def test_hooks_need_no_token_and_pages_do(root: Path) -> None:
    async def main() -> None:
        async with hearing(root, token="bearer") as ears:
            assert await ears.post("git/github", headers=GITS["github"][0]) == 202
            assert await ears.post("git/github") == 401
            assert (await ears.client.get("/metrics")).status_code == 401
            assert (await ears.client.get("/hooks/../metrics")).status_code == 401
            assert (await ears.client.get("/hooks/git/github")).status_code == 405

    anyio.run(main)


def test_an_address_that_sends_too_much_is_not_listened_to(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "_PER_S", 2.0)

    async def main() -> None:
        async with hearing(root) as ears:
            statuses = [await ears.post("git/github") for _ in range(100)]
            assert statuses[:4] == [401] * 4
            assert statuses[-1] == 429
            assert await ears.effects() == NO_EFFECT
            async with caller(ears.app, "192.0.2.1") as other:
                answer = await other.post("/hooks/git/github", content=b"{}", headers=GITS["github"][0])
                assert answer.status_code == 202

    anyio.run(main)


def test_nothing_random_has_an_effect_or_is_a_failure(root: Path) -> None:
    dice = random.Random(3)
    good = webhook({"id": "res_1"})
    names = ["x-signature", "x-hub-signature-256", "x-gitea-signature", "x-gitlab-token", "content-length"]

    def text() -> bytes:
        return bytes(dice.choices(range(33, 256), k=dice.randrange(80)))

    def body() -> bytes:
        """The good one with some bytes changed, or anything."""
        made = bytearray(good if dice.random() < 0.7 else dice.randbytes(dice.randrange(2000)))
        for _ in range(dice.randrange(4) if made else 0):
            made[dice.randrange(len(made))] = dice.randrange(256)
        return bytes(made)

    def value(sent: bytes) -> bytes:
        key = dice.choice([b"", b"other", text()])
        encoding: signing.Encoding = dice.choice(["hex", "base64"])
        made = signing.signature(key, sent, encoding).encode()
        return dice.choice([text(), made, b"sha256=" + made, signed(good)["x-signature"].encode()])

    async def main() -> None:
        async with hearing(root) as ears:
            for _ in range(1000):
                sent = body()
                kind, known = dice.choice([("git", [*GITS]), ("providers", ["acme", "other", "deaf"])])
                name = dice.choice(known)
                if dice.random() < 0.1:
                    name = quote(text())
                headers = [(name, value(sent)) for name in dice.choices(names[:4], k=dice.randrange(3))]
                if sent == good:
                    headers = [(name, given) for name, given in headers if name != "x-signature"]
                if dice.random() < 0.05:
                    headers.append(("content-length", dice.choice([b"0", b"-1", b"9" * 5000, text()])))
                status = await ears.post(f"{kind}/{name}", sent, headers)
                assert status in (307, 400, 401, 404, 413), (status, kind, name, sent, headers)
            assert await ears.effects() == NO_EFFECT
            assert await ears.post("providers/acme", good, signed(good)) == 202

    anyio.run(main)


@pytest.mark.parametrize(
    ("line", "column", "message", "text"),
    [
        (2, 3, "`hooks` of a git host need `source`", "  hooks: {github: {secret_from: {env: A}}}"),
        (2, 11, "there is no setting `controller.hooks.bitbucket`", "  hooks: {bitbucket: {}}"),
        (2, 19, "`controller.hooks.github.secret_from`", "  hooks: {github: {}}"),
        (2, 22, "`controller.hooks.providers`", "  hooks: {providers: acme}"),
        (
            2,
            39,
            "`controller.hooks.gitlab.secret_from.env`",
            "  hooks: {gitlab: {secret_from: {env: 'a b'}}}",
        ),
        (2, 32, "exactly one", "  hooks: {gitea: {secret_from: {}}}"),
    ],
)
def test_what_is_wrong_in_the_settings_is_told_at_its_place(
    line: int, column: int, message: str, text: str
) -> None:
    with pytest.raises(ManifestError) as refused:
        parse_settings(f"controller:\n{text}\n".encode())
    (problem,) = refused.value.diagnostics
    assert message in f"{problem.message} {problem.help}"
    assert problem.span is not None
    assert (problem.span.line, problem.span.column) == (line, column)


def test_no_manifest_can_take_the_secret_of_a_git_hook(root: Path) -> None:
    config = find_settings(root, {"HOOK_SECRET": SECRET})
    assert "HOOK_SECRET" in config.own_variables
    with pytest.raises(SecretUnavailable):
        secret_sources(config).value(SecretRef("env", "HOOK_SECRET"), lambda ref: None)
    assert secret_sources(config, ours=True).value(SecretRef("env", "HOOK_SECRET"), lambda ref: None)


@contextmanager
def listening(scene: Scene) -> Iterator[tuple[Log, str]]:
    """A running controller, which has looked once, and its address."""
    with controlling(scene.project, "--listen", "127.0.0.1:0") as log:
        url = log.until("listening")["url"]
        log.status(scene.app, "in-sync")
        yield log, url


@pytest.mark.slow
def test_a_pushed_commit_is_used_once_its_host_says_so(applied: Scene, tmp_path: Path) -> None:
    scene, project = applied, applied.project
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "remote.git")
    git(project.root, "init", "-q", "-b", "main")
    git(project.root, "remote", "add", "origin", "remote.git")
    project.env |= {**ISOLATED, "HOOK_SECRET": SECRET}
    project.write(".reconcile/\nremote.git/\n", ".gitignore")
    project.write(
        "manifests: [manifests]\ncontroller: {every: 1h, source: {ref: origin/main, fetch: 1h}, "
        "hooks: {github: {secret_from: {env: HOOK_SECRET}}}}\n",
        "reconcile.yaml",
    )
    push(scene)
    with listening(scene) as (log, url):
        project.write(scene.extension(", name: renamed"))
        push(scene)
        body = b'{"ref": "refs/heads/main"}'
        bad = ("x-hub-signature-256", f"sha256={signing.signature(b'guess', body)}")
        good = ("x-hub-signature-256", f"sha256={signing.signature(SECRET.encode(), body)}")
        assert send(url, "POST", "/hooks/git/github", [bad], body).status == 401
        assert send(url, "POST", "/hooks/git/github", [good], body).status == 202
        assert log.status(scene.app, "changes") == f"{scene.address} (name)"
        log.ended()


def push(scene: Scene) -> None:
    commit(scene.project.root)
    git(scene.project.root, "push", "-q", "origin", "main")


@pytest.mark.slow
def test_an_extension_is_looked_at_again_once_its_provider_reports_a_change(applied: Scene) -> None:
    """The platform takes the same bytes."""
    scene = applied
    scene.project.env["ACME_WEBHOOKS"] = WEBHOOKS
    scene.provide(", webhook_secret_from: {env: ACME_WEBHOOKS}, webhook_encoding: base64")
    scene.project.write(
        "manifests: [manifests]\ncontroller: {every: 1h, hooks: {providers: true}}\n", "reconcile.yaml"
    )
    registered = {
        "name": "acme",
        "base_url": scene.provider.url,
        "webhook_secret": WEBHOOKS,
        "webhook_encoding": "base64",
    }
    scene.sandbox.call("POST", "/_sandbox/providers", registered)
    with listening(scene) as (log, url):
        scene.provider.resources["res_1"]["name"] = "renamed"
        body = webhook({"id": "res_1", "name": "renamed", "status": "ready"})
        headers = [*signed(body, encoding="base64").items(), ("content-type", "application/json")]
        assert send(url, "POST", "/hooks/providers/acme", headers, body).status == 202
        assert send(scene.sandbox.url, "POST", "/webhooks/acme", headers, body).status == 200
        assert log.status(scene.app, "drifted") == f"{scene.address} (name)"
        assert send(url, "POST", "/hooks/providers/acme", headers, body).status == 401
        rest = log.ended()
    assert WEBHOOKS not in str(rest)
