"""The project's settings: `reconcile.yaml`, and the environment variables that come before it."""

from reconciler.project.settings.project import (
    PRIVATE,
    ProjectSettings,
    find_settings,
    project_root,
    refuse_unknown_environment,
)
from reconciler.project.settings.sections import (
    ENVIRONMENT,
    FILE_NAME,
    NotifySection,
    PlatformSettings,
    ProviderSection,
    SecretSource,
    Settings,
    check_address,
    known_capabilities,
)

__all__ = [
    "ENVIRONMENT",
    "FILE_NAME",
    "PRIVATE",
    "NotifySection",
    "PlatformSettings",
    "ProjectSettings",
    "ProviderSection",
    "SecretSource",
    "Settings",
    "check_address",
    "find_settings",
    "known_capabilities",
    "project_root",
    "refuse_unknown_environment",
]
