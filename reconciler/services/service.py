"""What one service is like: the facts that the client needs beside where it is and who asks."""

from collections.abc import Callable

from msgspec import Struct

from reconciler.core.steps import Call, Read
from reconciler.services.outcome import Outcome, Policy


class Service(Struct, frozen=True):
    """One service, as the client sees it. How it knows who asks is `auth.Auth`.

    `name`: as calls and reads name it. `label`: as people know it ("provider acme"); "" for the platform,
    which messages do not name.

    `policy`: what its error answers mean for a mutation. `content`: what is kept of the body of a GET, as
    JSON; b"null" where nothing can be. `outcome`: what is kept of the answer to a mutation. Whatever those
    two leave out never leaves the client.

    `action`: what its rate limit counts as one action, from method and path; None: it documents no limit.
    `essential`: nothing can be said without it, so that a refused token (401) ends the run.

    The rest is what messages say: `check_access` of a path after 403, and after 401 where the client does not
    know where its credential is from; `check_address` when something else seems to have answered; `no_secret`
    when what signs requests is not readable.
    """

    name: str
    policy: Policy
    content: Callable[[Read, bytes], bytes]
    outcome: Callable[[Outcome, Call], Outcome]
    check_access: Callable[[str], str]
    check_address: str
    no_secret: str = ""
    label: str = ""
    action: Callable[[str, str], str] | None = None
    essential: bool = False
