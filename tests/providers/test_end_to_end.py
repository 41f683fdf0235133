"""Three processes: an Extension from its manifest to its end, and what both services tell each other."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from reconciler.sandbox.parts.secret import holds
from tests.cli.harness import PATIENCE_S, Project, environment, only
from tests.providers.postgres import Postgres
from tests.providers.serve import SIGNING_SECRET
from tests.providers.together import NAME, ORGANIZATION, Together, running_together
from tests.state.doubles import make_state

ADDRESS = "Extension/shop/db"


@dataclass(frozen=True, slots=True)
class Scene:
    together: Together
    project: Project
    postgres: Postgres

    def declare(self, **changes: str) -> None:
        spec = {
            "provider": NAME,
            "organization_id": ORGANIZATION,
            "organization_name": "Acme",
            "user_id": "ann",
            "user_email": "ann@users.sandbox.invalid",
            "user_role": "admin",
            "primary_region": "ams",
            **changes,
        }
        lines = "".join(f"  {name}: {value}\n" for name, value in spec.items())
        self.project.write(
            "apiVersion: reconciler/v1\nkind: Extension\nmetadata: {name: db, app: shop}\n"
            f"spec:\n{lines}lifecycle: {{deletion: delete}}\n"
        )

    def resource(self) -> dict[str, Any]:
        """The only one that the provider reported, once it did."""
        until(lambda: bool(self.together.resources()))
        found: dict[str, Any] = only(self.together.resources())
        return found


@pytest.fixture(params=["hex", "base64"])
def scene(request: pytest.FixtureRequest, postgres: Postgres, tmp_path: Path) -> Iterator[Scene]:
    with running_together(postgres, tmp_path, request.param) as together:
        together.sandbox.call("POST", "/_sandbox/apps", {"name": "shop", "org_slug": ORGANIZATION})
        together.sandbox.call("POST", "/_sandbox/machines", {"app": "shop", "id": "m1"})
        root = tmp_path / "project"
        root.mkdir()
        make_state(root)
        project = Project(root, environment(together.sandbox.url, SIGNING=SIGNING_SECRET))
        project.write("manifests: [manifests]\n", "reconcile.yaml")
        project.write(
            f"apiVersion: reconciler/v1\nkind: ExtensionProvider\nmetadata: {{name: {NAME}}}\n"
            f"spec: {{base_url: '{together.provider.url}', signing_secret_from: {{env: SIGNING}}, "
            f"signature_encoding: {request.param}}}\n",
            "manifests/provider.yaml",
        )
        yield Scene(together, project, postgres)


def until(condition: Callable[[], bool]) -> None:
    """Ask again and again until what other processes do shows; only a bug uses the patience up."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end


def test_an_extension_from_its_manifest_to_its_end(scene: Scene) -> None:
    project, together, sandbox = scene.project, scene.together, scene.together.sandbox
    before = scene.postgres.databases()
    scene.declare()
    refused = project.apply(code=1)
    assert [diagnostic["code"] for diagnostic in refused.json["diagnostics"]] == ["create-not-approved"]
    assert scene.postgres.databases() == before
    project.approve(ADDRESS)

    sandbox.fault("POST", f"/webhooks/{NAME}", "drop_after")  # so that the first is sent again
    first = project.apply()
    assert set(first.outcomes().values()) == {"done"}, first.out
    (database,) = scene.postgres.databases() - before
    secret = only(sandbox.secrets("shop"))
    assert secret["name"] == "DATABASE_URL"

    # The world keeps the value's fingerprint alone; the provider answers the same order with the same value.
    resource = scene.resource()
    value = _ordered_again(scene, resource["id"])
    assert holds(secret["fingerprint"], value)
    with psycopg.connect(value) as connection:
        assert connection.execute("SELECT current_database()").fetchone() == (database,)
    assert value not in "".join(
        file.read_text(errors="replace") for file in sorted(project.root.rglob("*")) if file.is_file()
    )
    assert value not in first.out + first.err

    until(lambda: scene.resource()["status"] == "ready")
    assert (resource["provider"], resource["organization_id"], resource["user_id"]) == (
        NAME,
        ORGANIZATION,
        "ann",
    )

    with sandbox.recording() as requests:
        assert project.apply().outcomes() == {}
    assert [request for request in requests if request[0] != "GET"] == []

    sandbox.call("POST", "/v1/apps/shop/machines/m1/suspend")
    sandbox.advance(10)
    until(lambda: {found["state"] for found in together.deliveries()} == {"delivered"})
    assert [delivery["type"].rpartition(".")[2] for delivery in together.deliveries()] == [
        "suspending",
        "suspended",
    ]

    sandbox.advance(24 * 3600)
    until(lambda: together.deliveries()[-1]["state"] == "delivered")
    asked = together.deliveries()[-1]
    assert (asked["purpose"], asked["status"]) == ("costs", 200)
    assert resource["id"] in str(asked["answer"])

    project.remove()
    refused = project.apply(code=1)
    assert [item["code"] for item in refused.json["diagnostics"]] == ["delete-not-approved"]
    assert database in scene.postgres.databases()
    project.apply("--approve-delete", ADDRESS)
    assert scene.postgres.databases() == before
    assert "shop" not in str(scene.postgres.roles())
    until(lambda: scene.resource()["status"] == "deleted")


def _ordered_again(scene: Scene, id: str) -> str:
    """What the provider answers to the same id once more."""
    reply = scene.together.provider.platform.provision(
        id,
        name="db",
        organization_id=ORGANIZATION,
        organization_name="Acme",
        user_id="ann",
        user_email="ann@users.sandbox.invalid",
    )
    assert reply.status in (200, 201), reply.body
    value: str = reply.json["config"]["DATABASE_URL"]
    return value
