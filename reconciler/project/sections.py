"""The models of `reconcile.yaml`, one for each section, and the patterns of values in them."""

import re
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)
from pydantic_core import PydanticCustomError, PydanticKnownError

from reconciler.approvals.rules import FILE as SIGNERS_FILE
from reconciler.approvals.rules import NAME, PATTERN, AgentSettings, ApprovalSettings, Guarded, Rule
from reconciler.core.context import BASE
from reconciler.core.errors import ReconcilerError
from reconciler.core.model import IMPACTS
from reconciler.core.spans import SpanText, parse_span
from reconciler.core.state_url import DEFAULT_URL, LEASE_S, OBJECTS, is_shared, scheme_of
from reconciler.core.steps import SecretRef
from reconciler.kinds import find_kinds
from reconciler.kinds.manifest import TEXT_PATTERN
from reconciler.kinds.source import VARIABLE, ValueSource, check_source, is_private_key, source_ref
from reconciler.manifests.files import SETTINGS_FILE
from reconciler.secrets.age import parse_recipients

EXTENDED = "extended"  # stands for all capabilities

ENVIRONMENT = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
RESERVED = "reserved_environment"  # type of the error that pydantic gives
BROKEN_RECIPIENT = "broken_recipient"  # likewise
_LINEAGE = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
URL = r"^https?://[^\s/\\?#@\x00-\x1f\x7f]+(/[^\s\\?#@\x00-\x1f\x7f]*)?$"
_RECIPIENT = "^(age1|ssh-)"
# A folder below the project's root, written plainly: it is compared with the names of files.
_BELOW = r"^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*$"

_HOOK = (
    r"^(https://[^\s/\\?#@\x00-\x1f\x7f]+|http://(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?)"
    r"(/[^\s\\?#@\x00-\x1f\x7f]*)?$"
)

ALLOWED = {  # by pattern, in words
    _HOOK: "an address such as https://hooks.example.com/reconcile; http is for loopback addresses only",
    URL: "an address such as https://api.example.com, without a user or password",
    _RECIPIENT: "a public recipient: age1…, ssh-ed25519 … or ssh-rsa …",
    VARIABLE: "the name of a variable: letters, digits and `_`, not beginning with a digit",
    _LINEAGE: "a lineage as `state init` prints it, such as 6c1e0a52-4c0f-4f9e-9d43-0f3f1f1d8a57",
    _BELOW: "a folder inside the project, such as deploy/overlays; no part of it begins with a dot",
    f"^{ENVIRONMENT.pattern}$": "a name of at most 63 lower-case letters, digits and `-`, "
    "the first one a letter or digit",
    NAME: "a name of at most 63 lower-case letters, digits and `-`; `base` for none",
    PATTERN: "files inside the project, such as guardrails/*.yaml",
    SIGNERS_FILE: "a file inside the project, such as .github/allowed_signers",
    "^/": "a path that begins with `/`",
    TEXT_PATTERN: "one line without control characters",
}


# A section with all its defaults. An instance here would be built with the module, and not with the file.
_DEFAULTS: Any = Field({}, validate_default=True)


def _not_reserved(name: str) -> str:
    """`name`, unless it is the word for no environment."""
    if name == BASE:
        raise PydanticCustomError(RESERVED, "the name is reserved")
    return name


EnvironmentName = Annotated[str, StringConstraints(pattern=f"^{ENVIRONMENT.pattern}$")]
NewEnvironment = Annotated[EnvironmentName, AfterValidator(_not_reserved)]


def check_address(url: str) -> None:
    """Raises ReconcilerError for what is not the address of a platform."""
    if not re.match(URL, url):
        raise ReconcilerError(f"this is not the address of a platform: expected {ALLOWED[URL]}")


class Section(BaseModel):
    """The base of all sections: strict, without unknown keys."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        defer_build=True,  # all are built at once, with the whole file's
    )


class TokenSource(Section):
    """The place that the platform's token comes from."""

    env: str = Field(
        "RECONCILE_TOKEN",
        pattern=VARIABLE,
        description="Environment variable that holds the platform's token.",
    )
    emulator: bool = Field(
        False, description="On loopback, without that variable: the token of `reconcile sandbox`."
    )


@cache
def known_capabilities() -> frozenset[str]:
    """The capabilities of the platform that kinds can use, besides what it documents."""
    return frozenset(name for kind in find_kinds().values() for name in kind.capabilities)


def _known_capability(value: Any) -> Any:
    """`value`, if it is a capability. Raises a pydantic error."""
    known = (*sorted(known_capabilities()), EXTENDED)
    if value not in known:
        raise PydanticKnownError("literal_error", {"expected": ", ".join(f"'{name}'" for name in known)})
    return value


class PlatformSettings(Section):
    """The platform: its address, its token, and how it may be asked."""

    base_url: str | None = Field(None, pattern=URL)
    token_from: TokenSource = _DEFAULTS
    capabilities: list[Annotated[str, BeforeValidator(_known_capability)]] = []
    rate_limit: float | None = Field(
        1.0, gt=0, strict=False, description="Requests per second and action; null for none."
    )
    rate_limit_loopback: bool = Field(False, description="Keep to `rate_limit` on loopback, too.")


class ExecutionSettings(Section):
    """Limits and times of a run."""

    concurrency: int = Field(8, ge=1, le=256, description="Calls at a time.")
    read_concurrency: int = Field(64, ge=1, le=256, description="GETs at a time while planning.")
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
    """The source of a secret: exactly one of these. A file's path is relative to the project's root."""

    @model_validator(mode="after")
    def _one(self) -> "SecretSource":
        """Refuse none, and several."""
        for problem in check_source(self, ("value",), lambda *path: None):
            raise ValueError(problem.help)
        return self

    def ref(self) -> SecretRef:
        """The reference by which the value is read."""
        return source_ref(self, SETTINGS_FILE)


class IdentitySource(Section):
    """The source of age identities: exactly one of these. Relative paths begin at the project's root."""

    env: str | None = Field(None, pattern=VARIABLE)
    file: str | None = Field(None, min_length=1, pattern=TEXT_PATTERN)

    @model_validator(mode="after")
    def _one(self) -> "IdentitySource":
        """Refuse none, both, and a key that was pasted in the place of a file's name."""
        if (self.env is None) == (self.file is None):
            raise ValueError("give exactly one of `env` and `file`")
        if is_private_key(self.file or ""):
            raise ValueError(
                "this is a private key; write the path of its file instead, and create a new key"
            )
        return self

    def ref(self) -> SecretRef:
        """The reference by which the identity is read."""
        return SecretRef("env", self.env) if self.env is not None else SecretRef("file", self.file or "")


class SecretsSettings(Section):
    """How values are encrypted, decrypted and given by programs."""

    age_identity_from: IdentitySource | None = Field(
        None, description="Identities for decryption; RECONCILE_AGE_IDENTITY and …_FILE take precedence."
    )
    age_recipients: list[Annotated[str, Field(pattern=_RECIPIENT)]] = Field(
        [], description="Recipients of `reconcile secret encrypt` without --to."
    )
    exec: list[Annotated[str, Field(min_length=1)]] = Field(
        [], description="Programs that `value_from: {exec: …}` may run."
    )


class ProviderSection(Section):
    """The address and secrets that the platform gave to one extension provider, for those who run it."""

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


def _whole_recipient(text: str) -> str:
    """`text`, if it is a whole recipient of age. Raises a pydantic error."""
    try:
        parse_recipients([text])
    except ReconcilerError:
        raise PydanticCustomError(BROKEN_RECIPIENT, "this is not a whole recipient") from None
    return text


class StateSection(Section):
    """The place of the state, and its lineage. `state: URL` gives the place alone."""

    url: str | None = Field(None, description="Where the state is.")
    endpoint: str | None = Field(
        None, pattern=URL, description="Of an object store, where that is not the provider's own."
    )
    lineage: str | None = Field(
        None,
        pattern=_LINEAGE,
        description="Lineage of the only state that is accepted; `state init` prints it.",
    )
    encrypt_to: list[Annotated[str, Field(pattern=_RECIPIENT), AfterValidator(_whole_recipient)]] = Field(
        [], description="Recipients of age that a shared state is encrypted to; all who use it."
    )
    identity_from: IdentitySource | None = Field(
        None, description="Where the identity comes from that opens an encrypted state."
    )

    @model_validator(mode="after")
    def _used(self) -> "StateSection":
        """Refuse settings that mean nothing for this place."""
        if self.encrypt_to and self.identity_from is None:
            raise ValueError("`encrypt_to` needs `identity_from`: each user of the state has to read it")
        if self.encrypt_to and self.url is not None and not is_shared(self.url):
            raise ValueError(
                "`encrypt_to` is for a shared state: one in a file of this machine is not encrypted"
            )
        if self.endpoint is not None and self.url is not None and scheme_of(self.url) not in OBJECTS:
            raise ValueError("`endpoint` means nothing for this `url`: it is that of an object store")
        return self


StateSetting = Annotated[
    StateSection, BeforeValidator(lambda value: {"url": value} if isinstance(value, str) else value)
]


class NotifySection(Section):
    """A receiver of messages about ended runs."""

    on: list[Literal["drift", "failed", "owed", "proposed", "question", "silent", "warning"]] = Field(
        min_length=1, description="Of which events; `proposed` and `silent` are a controller's."
    )
    url: str | None = Field(None, pattern=_HOOK, description="Where the messages are sent.")
    url_from: SecretSource | None = Field(
        None, description="Where the address comes from, if it is a secret."
    )
    format: Literal["slack", "json", "cloudevents"] = "json"
    secret_from: SecretSource | None = Field(
        None, description="Secret that signs the messages (Standard Webhooks)."
    )

    @model_validator(mode="after")
    def _complete(self) -> "NotifySection":
        """Refuse an address without a signature, and a format with settings that it does not use."""
        if (self.url is None) == (self.url_from is None):
            raise ValueError("give exactly one of `url` and `url_from`")
        if self.format == "slack" and (self.url is not None or self.secret_from is not None):
            raise ValueError(
                "`slack` takes `url_from` alone: its address is a secret, and it checks no signature"
            )
        if self.format != "slack" and self.secret_from is None:
            raise ValueError(
                "`secret_from` is missing: without a signature the receiver cannot know the sender"
            )
        return self


class SourceSection(Section):
    """Where the controller gets settings and manifests: from a clone of its own."""

    ref: str = Field(
        pattern=r"^[\w.-]+/[\w./-]+$", description="Remote and branch.", examples=["origin/main"]
    )
    fetch: SpanText = Field("1m", description="How often it is fetched.")
    verify: Literal["none", "signed"] = Field(
        "none", description="`signed`: the newest commit must be signed by one of the project's signers."
    )

    @property
    def fetch_s(self) -> float:
        return parse_span(self.fetch).total_seconds()


class HeartbeatSection(Section):
    """An address that is asked after each round, for a service that raises an alarm when that ends."""

    url: str | None = Field(None, pattern=_HOOK, description="Address, asked with GET.")
    url_from: SecretSource | None = Field(
        None, description="Where the address comes from, if it is a secret."
    )
    after: Literal["success", "round"] = Field(
        "success", description="`success`: only after a round in which each scope could be looked at."
    )

    @model_validator(mode="after")
    def _one(self) -> "HeartbeatSection":
        if (self.url is None) == (self.url_from is None):
            raise ValueError("give exactly one of `url` and `url_from`")
        return self


class GitHookSection(Section):
    """The webhook of one git host."""

    secret_from: SecretSource = Field(description="Secret that the host signs with, or sends (GitLab).")


class HooksSection(Section):
    """Whom the controller listens to."""

    github: GitHookSection | None = None
    gitlab: GitHookSection | None = None
    gitea: GitHookSection | None = Field(None, description="Gitea or Forgejo.")
    providers: bool = Field(False, description="Those whose manifests have `webhook_secret_from`.")

    @property
    def git(self) -> dict[str, SecretSource]:
        hooks = {"github": self.github, "gitlab": self.gitlab, "gitea": self.gitea}
        return {host: hook.secret_from for host, hook in hooks.items() if hook is not None}


class ControllerSection(Section):
    """What `reconcile controller` does by itself."""

    source: SourceSection | None = Field(None, description="Without it: the folder as it is.")
    every: SpanText = Field("10m", description="How often each scope is looked at.")
    mode: Literal["observe", "propose", "apply"] = Field(
        "observe",
        description="`propose` also saves plans and applies what people signed; `apply` also sends what "
        "`apply_impacts` allows.",
    )
    apply_impacts: list[Literal[IMPACTS]] = Field(  # type: ignore[valid-type]  # words of a tuple
        ["online"], description="With mode `apply`: impacts of changes that are sent without a person."
    )

    heartbeat: HeartbeatSection | None = Field(None, description="For an alarm when rounds end.")
    hooks: HooksSection = _DEFAULTS

    @model_validator(mode="after")
    def _fetches(self) -> "ControllerSection":
        if self.hooks.git and self.source is None:
            raise ValueError("`hooks` of a git host need `source`: without it, nothing is fetched")
        return self

    @property
    def every_s(self) -> float:
        return parse_span(self.every).total_seconds()


class EnvironmentSection(Section):
    """The settings of one environment that differ. Everything else is as without an environment."""

    platform: PlatformSettings = _DEFAULTS
    state: StateSetting = _DEFAULTS
    execution: ExecutionSettings = _DEFAULTS


class Settings(Section, Guarded):
    """The whole file."""

    platform: PlatformSettings = _DEFAULTS
    providers: dict[str, ProviderSection] = Field(default_factory=dict)
    state: StateSetting = _DEFAULTS
    manifests: list[str] = ["manifests"]
    overlays: str = Field("overlays", pattern=_BELOW, description="Folder of the environments' overlays.")
    execution: ExecutionSettings = _DEFAULTS
    secrets: SecretsSettings = _DEFAULTS
    approvals: ApprovalSettings = _DEFAULTS
    agents: AgentSettings = _DEFAULTS
    notify: list[NotifySection] = Field([], description="Who is told how drift and apply ended.")
    controller: ControllerSection = _DEFAULTS
    prices: str | None = Field(
        None, pattern=SIGNERS_FILE, description="CSV file of prices, for `plan` and `inventory`."
    )
    environments: dict[NewEnvironment, EnvironmentSection] = Field(default_factory=dict)
    default_environment: EnvironmentName | None = Field(
        None, description="The environment to use without --env; `base` for none."
    )

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules about approvals: those that are written as such, and those about agents."""
        return (*self.approvals.rules, *self.agents.rules)

    @property
    def capabilities(self) -> frozenset[str]:
        """The capabilities that the settings name."""
        named = frozenset(self.platform.capabilities)
        return known_capabilities() if EXTENDED in named else named

    @property
    def state_url(self) -> str:
        """The place of the state, or the usual one."""
        return self.state.url or DEFAULT_URL
