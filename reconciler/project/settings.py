"""The settings of a project in one environment: found upwards from the working directory."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from reconciler.core.context import BASE
from reconciler.core.diagnostics import Span, error
from reconciler.core.errors import ManifestError, Misused, ReconcilerError
from reconciler.core.state_url import is_shared, url_of_environment
from reconciler.core.words import did_you_mean, in_a_row
from reconciler.kinds.source import OWN_VARIABLES
from reconciler.manifests.files import SETTINGS_FILE
from reconciler.project.sections import ENVIRONMENT, EnvironmentSection, Section, Settings, StateSection
from reconciler.project.settings_file import (
    credentials,
    parse_settings,
    read_settings,
    secret_variables,
    with_variables,
)

if TYPE_CHECKING:
    from reconciler.manifests.revisions.revision import Revision

PRIVATE = ".reconcile"

AnySection = TypeVar("AnySection", bound=Section)


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """The settings and the project's root: where `reconcile.yaml` stands, or else the working directory.

    `env`: the environment that the settings are for; "" for the base, without an overlay. `chosen`: whether
    somebody said so. `written`: what the file says, of all environments. `secret_variables`: the variables
    that the file names, for any environment, as holding a token, an identity or a provider's secret of ours.
    `own_variables`: those that hold our own credentials, which are nobody's secret value.
    `variables`: the environment variables of the run, secret ones among them.
    `trusted`: the revision that the settings are those of, where the files are somebody else's (--untrusted).
    `emulated`: the platform is the embedded sandbox, and the state its own.
    """

    settings: Settings
    root: Path
    env: str = ""
    chosen: bool = False
    written: Settings = field(default_factory=Settings)
    secret_variables: frozenset[str] = frozenset()
    own_variables: frozenset[str] = OWN_VARIABLES
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    trusted: "Revision | None" = None
    emulated: bool = False

    @property
    def private(self) -> Path:
        """The folder of what the tool keeps for itself: state, embedded sandbox, stores."""
        return self.root / PRIVATE / self.env

    @property
    def marks(self) -> Path | None:
        """The user's own folder with marks of states in files; None for none, and in the sandbox.

        A folder next to the project would go back with it to an older copy. The user's own folder is found
        as the XDG Base Directory Specification says.
        """
        if self.emulated:
            return None
        given, home = (Path(self.variables.get(name, "")) for name in ("XDG_STATE_HOME", "HOME"))
        folder = given if given.is_absolute() else home / ".local/state"
        return folder / "reconciler" if folder.is_absolute() else None

    @property
    def overlay(self) -> str:
        """The folder of the environment's overlay, relative to the root, there or not."""
        return f"{self.settings.overlays}/{self.env}"

    def in_sandbox(self) -> "ProjectSettings":
        """With the state that the embedded sandbox has to itself: its ids mean nothing on a platform."""
        place = (self.private / "sandbox-state.db").relative_to(self.root)
        state = StateSection(url=f"sqlite:{place}")
        return replace(self, settings=self.settings.model_copy(update={"state": state}), emulated=True)

    def environments(self) -> list[str]:
        """The environments that there are: those with an overlay, and those with settings of their own."""
        if self.trusted is not None:
            folders = self.trusted.folders(self.settings.overlays)
        else:
            folders = _folders_in(self.root / self.settings.overlays)
        return sorted({*filter(ENVIRONMENT.fullmatch, folders), *self.settings.environments})

    def of(self, environment: str) -> "ProjectSettings":
        """The settings of another environment (`base`: of none), from the same file and variables."""
        name, settings = "" if environment == BASE else environment, self.written
        if name:
            own = settings.environments.get(name, EnvironmentSection())
            # Each has a state of its own, and so a lineage: that of no environment says nothing of it.
            update = {
                "platform": _overridden(settings.platform, own.platform),
                "execution": _overridden(settings.execution, own.execution),
                "state": _state_of(settings, own.state, name),
            }
            settings = settings.model_copy(update=update)
        effective = with_variables(settings, self.variables, name)
        return replace(self, settings=effective, env=name, chosen=True)

    def refuse_unknown_environment(self, names: Sequence[str] | None = None, where: str = "") -> None:
        """Raises ReconcilerError when the chosen environment is none of `names` (None: those that exist)."""
        known = self.environments() if names is None else names
        if not self.env or self.env in known:
            return
        where = where or (f" at {self.trusted.ref}" if self.trusted is not None else "")
        hint = did_you_mean(self.env, known)
        there = f"environments are {', '.join(known)}" if known else "there are none"
        raise ReconcilerError(
            f"there is no environment `{self.env}`{where}",
            help=f"{f'{hint} ' if hint else ''}{there}; one is a folder such as "
            f"{self.settings.overlays}/{self.env} beside reconcile.yaml, or a section of its `environments`",
        )

    def refuse_forgotten_environment(self, at_revision: Callable[[], Sequence[str]] | None = None) -> None:
        """Raises Misused where there are environments, and nobody said which one is meant.

        `at_revision`: tells those of the git revision that the manifests are read at.
        """
        names = [] if self.chosen else (at_revision or self.environments)()
        if names:
            problem = error(
                "environment-not-chosen",
                f"which environment is meant? There are {in_a_row([*names, f'`{BASE}` without an overlay'])}",
                help=f"pass --env NAME, or set `default_environment: NAME` in {SETTINGS_FILE}",
            )
            raise Misused("no environment is chosen; nothing was changed", [problem])


def _folders_in(folder: Path) -> list[str]:
    """The names of the folders in `folder`; none where it cannot be read."""
    try:
        return [entry.name for entry in folder.iterdir() if entry.is_dir()]
    except OSError:
        return []


def project_root(start: Path) -> Path:
    """The nearest folder from `start` upwards that holds `reconcile.yaml`; `start` when none does.

    Raises ReconcilerError where nobody can tell.
    """
    try:
        return next(
            (folder for folder in (start, *start.parents) if (folder / SETTINGS_FILE).is_file()), start
        )
    except OSError as failure:  # to go on without settings that are there would mean another state
        raise ReconcilerError(
            f"cannot look for {SETTINGS_FILE}: {failure.strerror}: {failure.filename}"
        ) from failure


def find_settings(
    start: Path, env: Mapping[str, str], environment: str = "", *, trusted: str | None = None
) -> ProjectSettings:
    """The settings for `environment`, which need not exist. `base` is none of them; "": the default one.

    `trusted`: the git revision that they are read from instead of the working tree.

    Raises ManifestError for a bad file and a reserved name, ReconcilerError for a bad environment variable
    or name.
    """
    if environment and not ENVIRONMENT.fullmatch(environment):
        raise ReconcilerError(
            f"`{environment}` is not a valid environment name",
            help="a name is at most 63 lower-case letters, digits and `-`, the first one a letter or digit",
        )
    at = None
    if trusted is not None:
        from reconciler.manifests.revisions.revision import trusted_revision

        at = trusted_revision(start, env, trusted)
    root = project_root(start) if at is None else at.git.folder
    settings = read_settings(root / SETTINGS_FILE) if at is None else parse_settings(at.read(SETTINGS_FILE))
    found = ProjectSettings(
        settings,
        root,
        written=settings,
        secret_variables=secret_variables(settings),
        own_variables=OWN_VARIABLES | credentials(settings),
        variables=env,
        trusted=at,
    )
    if BASE in found.environments():
        folder = f"{settings.overlays}/{BASE}"
        problem = error(
            "reserved-environment",
            f"an environment cannot be called `{BASE}`: that is the manifests without an overlay",
            Span(folder, 1, 1, 1),
            help="give the folder another name",
        )
        raise ManifestError(f"`{folder}` is not an environment", [problem])
    named = environment or settings.default_environment
    return replace(found.of(named or BASE), chosen=bool(named))


def _state_of(settings: Settings, own: StateSection, name: str) -> StateSection:
    """Encrypted as that of no environment, unless its section says otherwise or it is in another place."""
    base, changed = settings.state, dict[str, object]()
    if own.url is None or is_shared(own.url):
        inherited = {"encrypt_to", "identity_from"} - own.model_fields_set
        changed = {name: getattr(base, name) for name in inherited}
    if not own.url:
        changed |= {
            "url": url_of_environment(settings.state_url, name),
            "endpoint": own.endpoint or base.endpoint,
        }
    return own.model_copy(update=changed)


def _overridden(base: AnySection, own: AnySection) -> AnySection:
    """`base` with the values that `own` names."""
    return base.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})
