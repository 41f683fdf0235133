"""What is refused of encrypted states, and why."""

from reconciler.core.advice import command
from reconciler.core.diagnostics import error
from reconciler.core.errors import StateSealed, StoreError

_REKEY = command("state", "rekey")


def not_configured() -> StateSealed:
    """The state is encrypted, and reconcile.yaml does not say so."""
    problem = error(
        "state-encrypted",
        "the state is encrypted, and the settings do not say so",
        help="set `state.encrypt_to` and `state.identity_from` in reconcile.yaml as those who use this state "
        f"have them; to decrypt it permanently, set `state.identity_from` alone and run `{_REKEY}`",
        advice=(_REKEY,),
    )
    return StateSealed("the state cannot be read", [problem])


def no_identity(why: str, help: str) -> StateSealed:
    """`why`: what its source said."""
    problem = error("state-encrypted", f"the state is encrypted, and there is no identity: {why}", help=help)
    return StateSealed("the state cannot be read", [problem])


def wrong_identity() -> StateSealed:
    """There is an identity, and it opens nothing."""
    problem = error(
        "state-identity",
        "the state is not encrypted to the identity of `state.identity_from`",
        help="give the identity of one of its recipients; to add a recipient, somebody who can read the "
        f"state adds it to `state.encrypt_to` and runs `{_REKEY}`",
        advice=(_REKEY,),
    )
    return StateSealed("the state cannot be read", [problem])


def not_for_us() -> StateSealed:
    """Said before anything is written."""
    leave = command("state", "rekey", "--without-me", "FILE")
    problem = error(
        "state-identity",
        "nobody here could read the state again: no recipient in `state.encrypt_to` fits the identity",
        help="name your own recipient there, and its identity in `state.identity_from`; if you leave, prove "
        f"with an identity of somebody who stays that it opens the state: `{leave}`",
        advice=(leave,),
    )
    return StateSealed("the state is not encrypted like this; nothing was changed", [problem])


def not_encrypted() -> StateSealed:
    """The settings want an encrypted state, and this one is in clear."""
    problem = error(
        "state-not-encrypted",
        "the settings say `encrypt_to`, but the state is not encrypted",
        help=f"to encrypt it, run `{_REKEY}`",
        advice=(_REKEY,),
    )
    return StateSealed("the state was not touched; nothing was changed", [problem])


def by_an_older_program() -> StateSealed:
    """Such a state is written anew, as a whole, once."""
    problem = error(
        "state-encrypted",
        "the state was encrypted by an older version of this program, in another way",
        help=f"run `{_REKEY}` once, while nobody else uses the state",
        advice=(_REKEY,),
    )
    return StateSealed("the state cannot be read", [problem])


def damaged(what: str) -> StoreError:
    """`what` does not open where it stands: it was altered, or belongs elsewhere."""
    restore = command("state", "restore", "FILE")
    return StoreError(
        f"the encrypted state is damaged: {what} is not what was written there",
        help=f"restore a backup with `{restore}` to a place without a state",
        advice=(restore,),
    )
