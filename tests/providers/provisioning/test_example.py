"""The example of the extension kinds, which stands apart because it needs a provider that runs."""

from pathlib import Path

from tests.cli.harness import Project, environment
from tests.providers.provisioning.provider import SIGNING_SECRET, FakeProvider

EXAMPLE = Path(__file__).parents[3] / "manifests/extensions/db.yaml"
ADDRESS = "http://127.0.0.1:8090"


def test_the_example_converges_in_the_embedded_sandbox(tmp_path: Path, provider: FakeProvider) -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    assert ADDRESS in text
    project = Project(tmp_path, environment(None, ACME_SIGNING_SECRET=SIGNING_SECRET))
    project.write(text.replace(ADDRESS, provider.url))
    first = project.apply("--sandbox")
    assert first.outcomes() == {
        "Extension/shop/db#provision": "done",
        "Extension/shop/db#secrets": "done",
    }
    assert project.apply("--sandbox").json["steps"] == []
