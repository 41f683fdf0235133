"""A directory of manifests to load."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.manifests.load import Loaded, load

LoadFiles = Callable[..., Loaded]


@pytest.fixture
def load_files(tmp_path: Path) -> LoadFiles:
    """Writes the given files (name=text as a mapping) below the project's root and loads them all."""

    def load_written(files: dict[str, str], **options: object) -> Loaded:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return load([str(tmp_path)], root=tmp_path, **options)  # type: ignore[arg-type]

    return load_written


def volume(name: str, spec: str = "{size_gb: 10}", *, metadata: str = "", rest: str = "") -> str:
    return (
        f"---\napiVersion: reconciler/v1\nkind: Volume\n"
        f"metadata: {{name: {name}, app: shop{metadata}}}\nspec: {spec}\n{rest}"
    )


def policy(name: str, spec: str) -> str:
    return (
        f"---\napiVersion: reconciler/v1\nkind: RetentionPolicy\nmetadata: {{name: {name}}}\nspec: {spec}\n"
    )


def codes(loaded: Loaded) -> list[str]:
    return [problem.code for problem in loaded.diagnostics]
