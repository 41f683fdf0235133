"""The project as it was where a branch left another: by its settings of then, and what is not seen of it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from reconciler.core.context import BASE
from reconciler.core.diagnostics import Diagnostic, Severity, warning
from reconciler.manifests.files import SETTINGS_FILE
from reconciler.manifests.load import Loaded
from reconciler.manifests.reading.compose import compose
from reconciler.manifests.revisions.revision import Revision
from reconciler.pipeline.settings import ENVIRONMENT, ProjectSettings, Settings

_UNSEEN = (
    "manifests that cannot be read there count as changed, and removed ones may be missed: also check a "
    "plan without --changed-since"
)


def settings_before(config: ProjectSettings, base: Revision) -> tuple[ProjectSettings, list[Diagnostic]]:
    """`config` with what `reconcile.yaml` said at `base` of manifests, overlays and environments' names.

    Without that file: what is so by default, or as now where there were no manifests then. With a warning
    where it cannot be read.
    """
    data, problems = base.read(SETTINGS_FILE), []
    if data is None:
        default = Settings()
        then = default if all(map(base.holds, default.manifests)) else None
    else:
        then = _paths_in(data)
        if then is None:
            problems.append(_broken(base, f"`{SETTINGS_FILE}` does not say where the manifests are"))
    if then is None:
        return config, problems
    kept = {name: getattr(then, name) for name in ("manifests", "overlays", "environments")}
    return replace(config, settings=config.settings.model_copy(update=kept)), problems


def _paths_in(data: bytes) -> Settings | None:
    """Only where manifests stand: nothing else in the text is looked at. None where it cannot be told."""
    composed = compose(data, SETTINGS_FILE)
    value: Any = composed.documents[0].value if composed.documents else {}
    if not composed.complete or not isinstance(value, dict):
        return None
    paths = {name: value[name] for name in ("manifests", "overlays") if name in value}
    sections = value.get("environments")
    names = [name for name in sections if isinstance(name, str)] if isinstance(sections, dict) else []
    paths["environments"] = {name: {} for name in names if ENVIRONMENT.fullmatch(name) and name != BASE}
    try:
        return Settings.model_validate(paths)
    except ValidationError:
        return None


def unseen_before(before: Loaded, base: Revision) -> Iterator[Diagnostic]:
    """What `before`, the manifests at `base`, does not show: one warning for each kind of reason."""
    errors = [item for item in before.diagnostics if item.severity is Severity.ERROR]
    missing = [item for item in errors if item.code == "missing-path"]
    broken = [item for item in errors if item.code != "missing-path"]
    if missing:
        yield warning("base-has-none", missing[0].message, help=_UNSEEN)
    if broken:
        span = broken[0].span
        place = f"{span.place}: " if span is not None else ""
        yield _broken(base, f"{place}{broken[0].message}")


def _broken(base: Revision, first: str) -> Diagnostic:
    message = f"the manifests at {base.ref}, have errors: {first}"
    return warning("base-has-errors", message, help=_UNSEEN)
