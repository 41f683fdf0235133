"""The settings of a project in one environment: found upwards from the working directory.

The second half reads `reconcile.yaml` and the variables that come before it, and explains mistakes in them.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from reconciler.core.context import BASE
from reconciler.core.diagnostics import Diagnostic, Span, error
from reconciler.core.errors import ManifestError, Misused, ReconcilerError
from reconciler.core.state_url import is_shared, url_of_environment
from reconciler.core.words import did_you_mean, in_a_row
from reconciler.kinds.source import OWN_VARIABLES
from reconciler.manifests.files import SETTINGS_FILE, lies_in, veiled
from reconciler.manifests.reading.compose import Document, compose
from reconciler.manifests.reading.refusals import named
from reconciler.manifests.validation.problems import EXPECTED, describe, field_names, locate
from reconciler.project.sections import (
    ALLOWED,
    BROKEN_RECIPIENT,
    ENVIRONMENT,
    EXTENDED,
    RESERVED,
    URL,
    EnvironmentSection,
    IdentitySource,
    SecretSource,
    Section,
    Settings,
    StateSection,
    known_capabilities,
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
    def own_files(self) -> frozenset[str]:
        """The real paths of the files with age identities of ours, which are nobody's secret value."""
        named = [source.file for source in _identities(self.written) if source is not None]
        files = [self.root / os.path.expanduser(file) for file in named if file]  # noqa: PTH111 - never raises
        if given := self.variables.get("RECONCILE_AGE_IDENTITY_FILE"):
            files.append(Path(given).absolute())
        return frozenset(map(os.path.realpath, files))

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
            (folder for folder in (start, *start.parents) if _is_there(folder / SETTINGS_FILE)), start
        )
    except OSError as failure:  # to go on without settings that are there would mean another state
        raise ReconcilerError(
            f"cannot look for {SETTINGS_FILE}: {failure.strerror}: {failure.filename}"
        ) from failure


def _is_there(file: Path) -> bool:
    """Whether anything is there, such as a link that leads nowhere."""
    return file.is_symlink() or file.exists()


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


# --- the file ---


def read_settings(file: Path) -> Settings:
    """The settings of a file; the defaults where there is none. Raises ManifestError and ReconcilerError."""
    try:
        data = file.read_bytes() if file.is_file() else None
        if data is None and _is_there(file):
            raise ReconcilerError(f"{file} is not a file", help="put the settings there, or remove it")
    except OSError as failure:
        raise ReconcilerError(f"cannot read {file}: {failure.strerror}") from failure
    try:
        return parse_settings(data)
    except ManifestError as failure:
        if lies_in(file, file.parent):
            raise
        raise ManifestError(failure.message, list(map(veiled, failure.diagnostics))) from None


def parse_settings(data: bytes | None) -> Settings:
    """The settings in `data`; the defaults for None, where there is no file."""
    composed = compose(data or b"", SETTINGS_FILE)  # as all files in diagnostics, from the root
    if composed.diagnostics:
        raise ManifestError(f"{SETTINGS_FILE} cannot be read", composed.diagnostics)
    if not composed.documents:
        return Settings()
    document, *others = composed.documents
    if others:
        problem = error("bad-setting", "settings must be one document", others[0].spans[()])
        raise ManifestError(f"{SETTINGS_FILE} is not valid", [problem])
    try:
        return Settings.model_validate(document.value)
    except ValidationError as failure:
        found = [_explain(problem, document) for problem in failure.errors(include_url=False)]
        problems = list({problem.span: problem for problem in reversed(found)}.values())[::-1]
        raise ManifestError(f"{SETTINGS_FILE} is not valid", problems) from None


def _explain(problem: Any, document: Document) -> Diagnostic:
    """The diagnostic for an error that pydantic found."""
    path, _ = locate(problem, document.value)
    setting = ".".join(map(str, path)) or SETTINGS_FILE
    names_key = problem["loc"][-1:] == ("[key]",)
    kind, help, span = problem["type"], "", document.key_span(path) if names_key else document.span(path)
    if kind == RESERVED:
        message = f"an environment cannot be called `{BASE}`: that is the manifests without an overlay"
        return error("reserved-environment", message, span, help="give it another name")
    if kind == "extra_forbidden":
        span = document.key_span(path)
        message = f"there is no setting `{named(path)}`"
        if problem["input"] is None:  # {hunter2} may be a value that lacks its key
            message = f"there is no such setting in `{'.'.join(map(str, path[:-1])) or SETTINGS_FILE}`"
        help = did_you_mean(str(path[-1]), field_names(Settings, problem["loc"][:-1]))
    elif kind in EXPECTED:
        message = f"`{setting}`: expected {EXPECTED[kind]}, found {describe(problem['input'], secret=True)}"
    elif kind == "literal_error":
        message = f"this is not allowed for `{setting}`"
        choices = re.findall("'([^']*)'", problem["ctx"]["expected"])
        help = did_you_mean(str(problem["input"]), choices) or f"one of {', '.join(choices)}"
    elif kind == BROKEN_RECIPIENT:
        message = f"`{setting}`: this is not a whole public recipient"
        help = "copy it again: age1… (62 characters), ssh-ed25519 … or ssh-rsa …"
    elif kind == "string_pattern_mismatch" and problem["ctx"]["pattern"] in ALLOWED:
        message = f"`{setting}`: expected {ALLOWED[problem['ctx']['pattern']]}"
    else:
        message = f"`{setting}`: {problem['msg'].lower()}"
    # The span is private: somebody may have written a token or a password there.
    return error("bad-setting", message, span, help=help or "see docs/settings.md")


def with_variables(settings: Settings, env: Mapping[str, str], environment: str) -> Settings:
    """`settings` with the values of the environment variables that come before it."""
    platform, execution = settings.platform, settings.execution
    if env.get("RECONCILE_BASE_URL"):
        if not re.match(URL, env["RECONCILE_BASE_URL"]):
            raise ReconcilerError(f"RECONCILE_BASE_URL: expected {ALLOWED[URL]}")
        platform = platform.model_copy(update={"base_url": env["RECONCILE_BASE_URL"]})
    if env.get("RECONCILE_CAPABILITIES"):
        names = [name.strip() for name in env["RECONCILE_CAPABILITIES"].split(",") if name.strip()]
        unknown = sorted(set(names) - known_capabilities() - {EXTENDED})
        if unknown:
            raise ReconcilerError(
                f"RECONCILE_CAPABILITIES names unknown capabilities: {', '.join(unknown)}",
                help=did_you_mean(unknown[0], [EXTENDED, *known_capabilities()])
                or f"known are: extended, {', '.join(sorted(known_capabilities()))}",
            )
        platform = platform.model_copy(update={"capabilities": names})
    if env.get("RECONCILE_RATE_LIMIT_LOOPBACK"):
        limited = env["RECONCILE_RATE_LIMIT_LOOPBACK"] != "0"
        platform = platform.model_copy(update={"rate_limit_loopback": limited})
    if env.get("RECONCILE_SETTLE_S"):
        try:
            settle_s = float(env["RECONCILE_SETTLE_S"])
        except ValueError:
            settle_s = -1.0
        if not 0 <= settle_s < float("inf"):
            found = env["RECONCILE_SETTLE_S"]
            raise ReconcilerError(f"RECONCILE_SETTLE_S must be a number of seconds, not `{found}`")
        execution = execution.model_copy(update={"settle_s": settle_s})
    state = settings.state
    if env.get("RECONCILE_STATE"):
        state = state.model_copy(update={"url": url_of_environment(env["RECONCILE_STATE"], environment)})
    return settings.model_copy(update={"platform": platform, "execution": execution, "state": state})


def credentials(settings: Settings) -> frozenset[str]:
    """The variables with a token of any environment, an age identity, or a secret of hooks or messages."""
    platforms = [settings.platform, *(section.platform for section in settings.environments.values())]
    notified = (source for section in settings.notify for source in (section.url_from, section.secret_from))
    hooks = settings.controller.hooks.git.values()
    beat = settings.controller.heartbeat
    sources = (*_identities(settings), *notified, *hooks, beat.url_from if beat is not None else None)
    named = (source.env for source in sources if source is not None)
    return frozenset(filter(None, (*named, *(platform.token_from.env for platform in platforms))))


def _identities(settings: Settings) -> Sequence[IdentitySource | None]:
    """The sources of age identities, of values and of each environment's state."""
    states = [settings.state, *(section.state for section in settings.environments.values())]
    return [settings.secrets.age_identity_from, *(section.identity_from for section in states)]


def secret_variables(settings: Settings) -> frozenset[str]:
    """The variables that the file names as holding a secret of ours."""
    sources: list[SecretSource | None] = []
    for provider in settings.providers.values():
        signing = provider.signing_secret_from
        sources += signing if isinstance(signing, list) else [signing]
        sources += [provider.webhook_secret_from, provider.client_secret_from]
    named = frozenset(source.env for source in sources if source is not None and source.env is not None)
    return named | credentials(settings)
