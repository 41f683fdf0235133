"""How the state is encrypted, as the settings say, and the identity that opens it."""

from reconciler.core.errors import ReconcilerError, SecretUnavailable
from reconciler.core.state_url import is_shared, shown_url
from reconciler.pipeline.settings import ProjectSettings
from reconciler.secrets import age
from reconciler.secrets.sources import Allowed, Sources
from reconciler.state.encryption import problems
from reconciler.state.encryption.store import Encryption


def encryption_of(
    config: ProjectSettings, url: str, *, changing: bool = False, others: str = ""
) -> Encryption:
    """Of the state at `url`. `changing`: see `Encryption`; then one in a file is simply not encrypted.

    `others`: identities that count as ours.

    Raises ReconcilerError for a state in a file that should be encrypted.
    """
    section = config.settings.state
    recipients = tuple(dict.fromkeys(section.encrypt_to))
    if recipients and not is_shared(url):
        if not changing:
            raise ReconcilerError(
                f"the settings say `encrypt_to`, but the state {shown_url(url)} is in a file of this "
                "machine, which is not encrypted",
                help="name a shared state: `state: {url: s3://BUCKET/PREFIX, …}`; check --state and "
                "RECONCILE_STATE",
            )
        recipients = ()
    return Encryption(
        recipients,
        lambda data: age.encrypt(data, recipients).encode(),
        lambda data: _decrypted(config, data, others),
        changing,
    )


def _decrypted(config: ProjectSettings, data: bytes, others: str) -> bytes:
    """Raises StoreError where our identity does not open it, or where there is none."""
    source = config.settings.state.identity_from
    if source is None:
        raise problems.no_identity(
            "`state.identity_from` is not set", "set it in reconcile.yaml, such as {env: STATE_IDENTITY}"
        )
    sources = Sources(config.root, config.variables, Allowed(confined=config.trusted is not None))
    try:
        identities = sources.identities(source.ref())
    except SecretUnavailable as missing:
        raise problems.no_identity(missing.message, missing.help) from None
    if others:
        identities = [*identities, *age.parse_identities(others, "the file of --without-me")]
    try:
        return age.decrypt(data, identities, "the key of the state")
    except age.NotForUs:
        raise problems.wrong_identity() from None
    except SecretUnavailable:
        raise problems.damaged("its key") from None
