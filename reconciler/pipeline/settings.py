"""The project's settings: `reconcile.yaml`, found upwards from the working directory, and the environment."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError, PydanticKnownError

from reconciler.core.context import BASE
from reconciler.core.diagnostics import Diagnostic, Span, error
from reconciler.core.errors import ManifestError, Misused, ReconcilerError
from reconciler.core.model import unpack_span
from reconciler.core.nearest import did_you_mean
from reconciler.core.plural import in_a_row
from reconciler.core.state_url import DEFAULT_URL, LEASE_S, OBJECTS, beside, scheme_of
from reconciler.core.steps import SecretRef
from reconciler.kinds import find_kinds
from reconciler.kinds.source import (
    OWN_VARIABLES,
    VARIABLE,
    ValueSource,
    check_source,
    is_private_key,
    source_ref,
)
from reconciler.manifests.files import lies_in, veiled
from reconciler.manifests.reading.compose import compose
from reconciler.manifests.reading.naming import named
from reconciler.manifests.validation.problems import EXPECTED, Place, describe, field_names, locate

if TYPE_CHECKING:
    from reconciler.manifests.revisions.revision import Revision

FILE_NAME = "reconcile.yaml"
PRIVATE = ".reconcile"

EXTENDED = "extended"  # stands for all capabilities

ENVIRONMENT = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
RESERVED = "reserved-environment"


def _not_reserved(name: str) -> str:
    if name == BASE:
        raise PydanticCustomError(RESERVED, "the name is reserved")
    return name


EnvironmentName = Annotated[str, StringConstraints(pattern=f"^{ENVIRONMENT.pattern}$")]
NewEnvironment = Annotated[EnvironmentName, AfterValidator(_not_reserved)]
_LINEAGE = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
_URL = r"^https?://[^\s/\\?#@\x00-\x1f\x7f]+(/[^\s\\?#@\x00-\x1f\x7f]*)?$"
_RECIPIENT = "^(age1|ssh-)"
# A folder below the project's root, written plainly: it is compared with the names of files.
_BELOW = r"^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*$"


class _Section(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


Section = TypeVar("Section", bound=_Section)


class TokenSource(_Section):
    env: str = Field(
        "RECONCILE_TOKEN",
        pattern=VARIABLE,
        description="Environment variable that holds the platform's token.",
    )


@cache
def known_capabilities() -> frozenset[str]:
    """What kinds can use of the platform beside what it documents."""
    return frozenset(name for kind in find_kinds().values() for name in kind.capabilities)


def _known_capability(value: Any) -> Any:
    known = (*sorted(known_capabilities()), EXTENDED)
    if value not in known:
        raise PydanticKnownError("literal_error", {"expected": ", ".join(f"'{name}'" for name in known)})
    return value


class PlatformSettings(_Section):
    base_url: str | None = Field(None, pattern=_URL)
    token_from: TokenSource = TokenSource()
    capabilities: list[Annotated[str, BeforeValidator(_known_capability)]] = []
    rate_limit: float | None = Field(
        1.0, gt=0, strict=False, description="Requests per second and action; null for none."
    )


class ExecutionSettings(_Section):
    concurrency: int = Field(8, ge=1, le=256)
    lease_s: float = Field(
        LEASE_S,
        gt=0,
        strict=False,
        description="How long a dead run keeps its apps locked in a shared state; longer than `deadline_s`.",
    )
    settle_s: float = Field(
        180.0, ge=0, strict=False, description="How long after a lost create its object may still appear."
    )
    deadline_s: float = Field(30.0, gt=0, strict=False, description="Time limit of one request.")
    adopt_inferred: bool = Field(
        True, description="Adopt the object that a lost create has evidently created; false: ask a person."
    )


class SecretSource(ValueSource):
    """Where a secret comes from: exactly one of these. A file's path is relative to the project's root."""

    @model_validator(mode="after")
    def _one(self) -> "SecretSource":
        for problem in check_source(self, ("value",), lambda *path: None):
            raise ValueError(problem.help)
        return self

    def ref(self) -> SecretRef:
        return source_ref(self, FILE_NAME)


class IdentitySource(_Section):
    """Where age identities come from: exactly one of these. Relative paths begin at the project's root."""

    env: str | None = Field(None, pattern=VARIABLE)
    file: str | None = Field(None, min_length=1)

    @model_validator(mode="after")
    def _one(self) -> "IdentitySource":
        if (self.env is None) == (self.file is None):
            raise ValueError("give exactly one of `env` and `file`")
        if is_private_key(self.file or ""):
            raise ValueError(
                "this is a private key; write the path of its file instead, and create a new key"
            )
        return self

    def ref(self) -> SecretRef:
        return SecretRef("env", self.env) if self.env is not None else SecretRef("file", self.file or "")


class SecretsSettings(_Section):
    age_identity_from: IdentitySource | None = Field(
        None, description="Identities for decryption; RECONCILE_AGE_IDENTITY and …_FILE take precedence."
    )
    age_recipients: list[Annotated[str, Field(pattern=_RECIPIENT)]] = Field(
        [], description="Recipients of `reconcile secret encrypt` without --to."
    )
    exec: list[Annotated[str, Field(min_length=1)]] = Field(
        [], description="Programs that `value_from: {exec: …}` may run."
    )


class ProviderSection(_Section):
    """What the platform gave to one extension provider, for those who run that provider."""

    public_url: str | None = Field(None, description="Address at which the platform calls it.")
    signing_secret_from: SecretSource | list[SecretSource] | None = Field(
        None,
        description="Secret that signs the platform's requests; during a rotation, the new and the old one.",
    )
    encoding: Literal["hex", "base64"] = Field("hex", description="Encoding of signatures.")
    webhook_url: str | None = Field(None, description="Address at which the platform receives its webhooks.")
    webhook_secret_from: SecretSource | None = None
    auth_url: str | None = Field(None, description="The platform's sign-in service.")
    client_id: str | None = None
    client_secret_from: SecretSource | None = None
    costs_path: str | None = Field(None, pattern="^/")


class StateSection(_Section):
    """Where the state is, and which one: `state: URL` gives the first alone."""

    url: str | None = Field(None, description="Where the state is.")
    endpoint: str | None = Field(
        None, pattern=_URL, description="Of an object store, where that is not the provider's own."
    )
    lineage: str | None = Field(
        None,
        pattern=_LINEAGE,
        description="Lineage of the only state that is accepted; `state init` prints it.",
    )

    @model_validator(mode="after")
    def _used(self) -> "StateSection":
        if self.endpoint is not None and self.url is not None and scheme_of(self.url) not in OBJECTS:
            raise ValueError("`endpoint` means nothing for this `url`: it is that of an object store")
        return self


StateSetting = Annotated[
    StateSection, BeforeValidator(lambda value: {"url": value} if isinstance(value, str) else value)
]


class EnvironmentSection(_Section):
    """What differs in one environment; what is not written here is as it is everywhere."""

    platform: PlatformSettings = PlatformSettings()
    state: StateSetting = StateSection()
    execution: ExecutionSettings = ExecutionSettings()


class Settings(_Section):
    platform: PlatformSettings = PlatformSettings()
    providers: dict[str, ProviderSection] = Field(default_factory=dict)
    state: StateSetting = StateSection()
    manifests: list[str] = ["manifests"]
    overlays: str = Field("overlays", pattern=_BELOW, description="Folder of the environments' overlays.")
    execution: ExecutionSettings = ExecutionSettings()
    secrets: SecretsSettings = SecretsSettings()
    environments: dict[NewEnvironment, EnvironmentSection] = Field(default_factory=dict)
    default_environment: EnvironmentName | None = Field(
        None, description="The environment to use without --env; `base` for none."
    )

    @property
    def capabilities(self) -> frozenset[str]:
        named = frozenset(self.platform.capabilities)
        return known_capabilities() if EXTENDED in named else named

    @property
    def state_url(self) -> str:
        return self.state.url or DEFAULT_URL


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
        """Where this user keeps what was seen of states in files; None where nobody says, and in the sandbox.

        A folder beside the project would go back with it to an older copy.
        """
        given, home = (Path(self.variables.get(name, "")) for name in ("XDG_STATE_HOME", "HOME"))
        folder = given if given.is_absolute() else home / ".local/state"
        return folder / "reconciler" if folder.is_absolute() and not self.emulated else None

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
        """Those of another environment (`base`: of none), from the same file and variables."""
        name = "" if environment == BASE else environment
        settings = _of_environment(self.written, name) if name else self.written
        effective = _with_environment(settings, self.variables, name)
        return replace(self, settings=effective, env=name, chosen=True)

    def refuse_unknown_environment(self) -> None:
        """Raises ReconcilerError when the chosen environment does not exist."""
        if self.env:
            where = f" at {self.trusted.ref}" if self.trusted is not None else ""
            refuse_unknown_environment(self.env, self.environments(), self.settings.overlays, where)

    def refuse_forgotten_environment(self, at_revision: Callable[[], Sequence[str]] | None = None) -> None:
        """Raises Misused where there are environments, and nobody said which one is meant.

        `at_revision`: tells those of the git revision that the manifests are read at.
        """
        names = [] if self.chosen else (at_revision or self.environments)()
        if names:
            problem = error(
                "environment-not-chosen",
                f"which environment is meant? There are {in_a_row([*names, f'`{BASE}` without an overlay'])}",
                help=f"pass --env NAME, or set `default_environment: NAME` in {FILE_NAME}",
            )
            raise Misused("no environment is chosen; nothing was changed", [problem])


def _folders_in(folder: Path) -> list[str]:
    try:
        return [each.name for each in folder.iterdir() if each.is_dir()]
    except OSError:
        return []


def project_root(start: Path) -> Path:
    """The nearest folder from `start` upwards that holds `reconcile.yaml`; `start` when none does.

    Raises ReconcilerError where nobody can tell.
    """
    try:
        return next((folder for folder in (start, *start.parents) if (folder / FILE_NAME).is_file()), start)
    except OSError as failure:  # to go on without settings that are there would mean another state
        raise ReconcilerError(
            f"cannot look for {FILE_NAME}: {failure.strerror}: {failure.filename}"
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
        from reconciler.manifests.revisions.trusted import trusted_revision

        at = trusted_revision(start, env, trusted)
    root = project_root(start) if at is None else at.git.folder
    settings = _read(root / FILE_NAME) if at is None else _parse(at.read(FILE_NAME))
    found = ProjectSettings(
        settings,
        root,
        written=settings,
        secret_variables=_secret_variables(settings),
        own_variables=OWN_VARIABLES | _credentials(settings),
        variables=env,
        trusted=at,
    )
    _refuse_reserved(found)
    named = environment or settings.default_environment
    return replace(found.of(named or BASE), chosen=bool(named))


def _refuse_reserved(config: ProjectSettings) -> None:
    """Raises ManifestError where a folder of overlays has the name that none can have."""
    if BASE in config.environments():
        folder = f"{config.settings.overlays}/{BASE}"
        problem = error(
            RESERVED,
            f"an environment cannot be called `{BASE}`: that is the manifests without an overlay",
            Span(folder, 1, 1, 1),
            help="give the folder another name",
        )
        raise ManifestError(f"`{folder}` is not an environment", [problem])


def refuse_unknown_environment(name: str, known: Sequence[str], overlays: str, where: str = "") -> None:
    """Raises ReconcilerError when `name` is not `known`. `overlays`: the folder that holds theirs."""
    if name in known:
        return
    hint = did_you_mean(name, known)
    there = f"environments are {', '.join(known)}" if known else "there are none"
    raise ReconcilerError(
        f"there is no environment `{name}`{where}",
        help=f"{f'{hint} ' if hint else ''}{there}; one is a folder such as "
        f"{overlays}/{name} beside reconcile.yaml, or a section of its `environments`",
    )


def _credentials(settings: Settings) -> frozenset[str]:
    """Variables with a token of any environment, or with the identity that decrypts."""
    platforms = [settings.platform, *(each.platform for each in settings.environments.values())]
    identity = settings.secrets.age_identity_from
    named = (identity.env if identity is not None else None, *(each.token_from.env for each in platforms))
    return frozenset(filter(None, named))


def _secret_variables(settings: Settings) -> frozenset[str]:
    sources: list[SecretSource | None] = []
    for each in settings.providers.values():
        signing = each.signing_secret_from
        sources += signing if isinstance(signing, list) else [signing]
        sources += [each.webhook_secret_from, each.client_secret_from]
    named = frozenset(source.env for source in sources if source is not None and source.env is not None)
    return named | _credentials(settings)


def _of_environment(settings: Settings, name: str) -> Settings:
    """`settings` with what the environment's own section says; its state is then taken as it is.

    Each environment has a state of its own, and so a lineage: that of no environment says nothing of it.
    """
    own = settings.environments.get(name, EnvironmentSection())
    return settings.model_copy(
        update={
            "platform": _overridden(settings.platform, own.platform),
            "execution": _overridden(settings.execution, own.execution),
            "state": _state_of(settings, own.state, name),
        }
    )


def _state_of(settings: Settings, own: StateSection, name: str) -> StateSection:
    if own.url:
        return own
    endpoint = own.endpoint or settings.state.endpoint
    return own.model_copy(update={"url": beside(settings.state_url, name), "endpoint": endpoint})


def _overridden(base: Section, own: Section) -> Section:
    return base.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})


def _read(file: Path) -> Settings:
    try:
        data = file.read_bytes() if file.is_file() else None
    except OSError as failure:
        raise ReconcilerError(f"cannot read {file}: {failure.strerror}") from failure
    try:
        return _parse(data)
    except ManifestError as failure:
        if lies_in(file, file.parent):
            raise
        raise ManifestError(failure.message, list(map(veiled, failure.diagnostics))) from None


def _parse(data: bytes | None) -> Settings:
    """The settings in `data`; the defaults for None, where there is no file."""
    composed = compose(data or b"", FILE_NAME)  # as all files in diagnostics, from the root
    if composed.diagnostics:
        raise ManifestError(f"{FILE_NAME} cannot be read", composed.diagnostics)
    if not composed.documents:
        return Settings()
    document, *others = composed.documents
    if others:
        span = unpack_span(FILE_NAME, others[0].spans[()])
        problem = error("bad-setting", "settings must be one document", span)
        raise ManifestError(f"{FILE_NAME} is not valid", [problem])
    try:
        return Settings.model_validate(document.value)
    except ValidationError as failure:
        place = Place(document, FILE_NAME)
        found = [_explain(problem, place) for problem in failure.errors(include_url=False)]
        problems = list({problem.span: problem for problem in reversed(found)}.values())[::-1]
        raise ManifestError(f"{FILE_NAME} is not valid", problems) from None


_ALLOWED = {  # by pattern, in words
    _URL: "an address such as https://api.example.com, without a user or password",
    _RECIPIENT: "a public recipient: age1…, ssh-ed25519 … or ssh-rsa …",
    VARIABLE: "the name of a variable: letters, digits and `_`, not beginning with a digit",
    _LINEAGE: "a lineage as `state init` prints it, such as 6c1e0a52-4c0f-4f9e-9d43-0f3f1f1d8a57",
    _BELOW: "a folder inside the project, such as deploy/overlays; no part of it begins with a dot",
    f"^{ENVIRONMENT.pattern}$": "a name of at most 63 lower-case letters, digits and `-`, "
    "the first one a letter or digit",
    "^/": "a path that begins with `/`",
}


def _explain(problem: Any, place: Place) -> Diagnostic:
    path, _ = locate(problem, place.document.value)
    setting = ".".join(map(str, path)) or FILE_NAME
    names_key = problem["loc"][-1:] == ("[key]",)
    kind, help, span = problem["type"], "", place.key(path) if names_key else place.value(path)
    if kind == RESERVED:
        message = f"an environment cannot be called `{BASE}`: that is the manifests without an overlay"
        return error(RESERVED, message, span, help="give it another name")
    if kind == "extra_forbidden":
        span = place.key(path)
        message = f"there is no setting `{named(path)}`"
        if problem["input"] is None:  # {hunter2} may be a value that lacks its key
            message = f"there is no such setting in `{'.'.join(map(str, path[:-1])) or FILE_NAME}`"
        help = did_you_mean(str(path[-1]), field_names(Settings, problem["loc"][:-1]))
    elif kind in EXPECTED:
        message = f"`{setting}`: expected {EXPECTED[kind]}, found {describe(problem['input'], secret=True)}"
    elif kind == "literal_error":
        message = f"this is not allowed for `{setting}`"
        choices = re.findall("'([^']*)'", problem["ctx"]["expected"])
        help = did_you_mean(str(problem["input"]), choices) or f"one of {', '.join(choices)}"
    elif kind == "string_pattern_mismatch" and problem["ctx"]["pattern"] in _ALLOWED:
        message = f"`{setting}`: expected {_ALLOWED[problem['ctx']['pattern']]}"
    else:
        message = f"`{setting}`: {problem['msg'].lower()}"
    # The span is private: somebody may have written a token or a password there.
    return error("bad-setting", message, span, help=help or "see docs/settings.md")


def _with_environment(settings: Settings, env: Mapping[str, str], environment: str) -> Settings:
    """`settings` with what variables say."""
    platform, execution = settings.platform, settings.execution
    if env.get("RECONCILE_BASE_URL"):
        if not re.match(_URL, env["RECONCILE_BASE_URL"]):
            raise ReconcilerError(f"RECONCILE_BASE_URL: expected {_ALLOWED[_URL]}")
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
    if env.get("RECONCILE_SETTLE_S"):
        execution = execution.model_copy(update={"settle_s": _seconds(env, "RECONCILE_SETTLE_S")})
    state = settings.state
    if env.get("RECONCILE_STATE"):
        state = state.model_copy(update={"url": beside(env["RECONCILE_STATE"], environment)})
    return settings.model_copy(update={"platform": platform, "execution": execution, "state": state})


def check_address(url: str) -> None:
    """Raises ReconcilerError for what is not the address of a platform."""
    if not re.match(_URL, url):
        raise ReconcilerError(f"this is not the address of a platform: expected {_ALLOWED[_URL]}")


def _seconds(env: Mapping[str, str], name: str) -> float:
    try:
        value = float(env[name])
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ReconcilerError(f"{name} must be a number of seconds, not `{env[name]}`")
    return value
