"""A shop on a sandbox that serves, a provider that serves, and a project between them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from tests.cli.conftest import project_at
from tests.cli.harness import Project, Ran, Sandbox, serving
from tests.providers.provisioning.provider import SIGNING_SECRET, FakeProvider, serving_provider
from tests.reliability.canary.forms import Scanner

# What must never leave memory, but in the calls that set it.
URL = "postgres://app:canary-9b2f64d1e07c@db.example/app"
KEY = "canary-key-41d8a6f20b93"
OTHER = "canary-other-77e0c5b1a2d4"
SECRETS = {"url": URL, "key": KEY, "other": OTHER, "signing": SIGNING_SECRET}

_numbers = count(1)


@dataclass
class Scene:
    """`text`: of all that verbs printed."""

    project: Project
    sandbox: Sandbox
    provider: FakeProvider
    app: str
    text: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"Extension/{self.app}/db"

    def extension(self, spec: str = "", rest: str = "", *, metadata: str = "", name: str = "db") -> str:
        return (
            f"---\napiVersion: reconciler/v1\nkind: Extension\n"
            f"metadata: {{name: {name}, app: {self.app}{metadata}}}\n"
            "spec: {provider: acme, organization_id: org-1, organization_name: Example, user_id: user-1, "
            f"user_email: alias-1@users.example, user_role: admin{spec}}}\n{rest}"
        )

    def declare(self, *documents: str) -> None:
        """From now on, applies may create what these documents make: no list shows an Extension."""
        self.project.write("".join(documents))
        made = re.findall(r"kind: Extension\nmetadata: {name: ([\w-]+), app: ([\w-]+)}", "".join(documents))
        self.project.approve(*(f"Extension/{app}/{name}" for name, app in made))

    def provide(self, costs: str = "", encoding: str = "hex") -> None:
        self.project.write(
            "apiVersion: reconciler/v1\nkind: ExtensionProvider\nmetadata: {name: acme}\n"
            f"spec: {{base_url: '{self.provider.url}', signing_secret_from: {{env: ACME_SIGNING_SECRET}}, "
            f"signature_encoding: {encoding}{costs}}}\n",
            "manifests/provider.yaml",
        )

    def run(self, *arguments: str, code: int | None = 0) -> Ran:
        """With all that logs can tell."""
        ran = self.project.run("-vv", *arguments, code=code)
        self.text += [ran.out, ran.err]
        return ran

    def apply(self, *arguments: str, code: int | None = 0) -> Ran:
        return self.run("apply", "--auto-approve", "--output", "json", *arguments, code=code)

    def plan(self, *arguments: str, code: int | None = 0) -> Ran:
        return self.run("plan", "--output", "json", *arguments, code=code)

    def record(self, address: str = "") -> dict[str, object]:
        found: dict[str, object] = self.run(
            "state", "show", address or self.address, "--output", "json"
        ).json["record"]
        return found

    def records(self) -> list[str]:
        """Addresses of all records."""
        return [record["address"] for record in self.run("state", "list", "--output", "json").json["records"]]

    def secrets(self) -> set[str]:
        return {secret["name"] for secret in self.sandbox.secrets(self.app)}

    def sets(self) -> list[str]:
        """Names of the secrets that were sent, in order, also of those that were refused or lost."""
        made = self.sandbox.mutations_of(self.app)
        return [path.removeprefix("secrets/") for method, path in made if method == "POST"]

    def leaks(self) -> list[str]:
        """Where a secret value stands: in a file of the project, or in anything printed."""
        scanner = Scanner(SECRETS)
        files = [file for file in sorted(self.project.root.rglob("*")) if file.is_file()]
        found = [f"{file.name}: {leak}" for file in files for leak in scanner.leaks(file.read_bytes())]
        return found + [f"printed: {leak}" for text in self.text for leak in scanner.leaks(text.encode())]


@pytest.fixture(scope="module")
def _sandbox() -> Iterator[Sandbox]:
    with serving("--clock", "x600") as sandbox:
        yield sandbox


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with serving_provider(config={"DATABASE_URL": URL, "API_KEY": KEY}) as provider:
        yield provider


@pytest.fixture
def scene(_sandbox: Sandbox, provider: FakeProvider, tmp_path: Path) -> Iterator[Scene]:
    """Whatever a test does: every request was signed well, and no secret value is left anywhere."""
    app = _sandbox.app(f"shop{next(_numbers)}")
    project = project_at(tmp_path, _sandbox.url)
    project.env["ACME_SIGNING_SECRET"] = SIGNING_SECRET
    scene = Scene(project, _sandbox, provider, app)
    scene.provide()
    yield scene
    _sandbox.clear_faults()
    assert scene.leaks() == []
    assert not [header for header in provider.headers if "Authorization" in header]


@pytest.fixture
def applied(scene: Scene) -> Scene:
    """A scene in which an extension was declared and provisioned."""
    scene.declare(scene.extension())
    scene.apply()
    return scene


@pytest.fixture
def removed(scene: Scene) -> Scene:
    """A scene whose extension may be deleted, and has left the manifests."""
    scene.declare(scene.extension(rest="lifecycle: {deletion: delete}\n"))
    scene.apply()
    scene.project.remove()
    return scene
