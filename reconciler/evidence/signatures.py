"""SSH signatures of approvals, judged by `ssh-keygen`."""

import subprocess
import tempfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from reconciler.core.errors import ReconcilerError

NAMESPACE = "reconcile-plan"
_PATIENCE_S = 20
_NEEDED = ("PATH", "HOME", "TZ", "TMPDIR")


def why_unsigned(
    statement: bytes,
    signature: bytes,
    principal: str,
    signers: bytes | None,
    at: datetime,
    env: Mapping[str, str],
) -> str:
    """ "" for a signature of `statement`; with `signers`, for one that `principal` could make `at` that time.

    Raises ReconcilerError where ssh-keygen cannot be asked.
    """
    with tempfile.TemporaryDirectory(prefix="reconcile-") as folder:
        signed, allowed = Path(folder, "signature"), Path(folder, "allowed_signers")
        signed.write_bytes(signature)
        options = ["check-novalidate"]
        if signers is not None:
            allowed.write_bytes(signers)
            # In local time, which is what those versions take that know no Z.
            moment = f"-Overify-time={at.astimezone():%Y%m%d%H%M%S}"
            options = ["verify", "-f", str(allowed), "-I", principal, moment]
        command = ["ssh-keygen", "-Y", *options, "-n", NAMESPACE, "-s", str(signed)]
        try:
            done = subprocess.run(  # noqa: S603 - no shell, and no text of a bundle is an option
                command,
                input=statement,
                capture_output=True,
                timeout=_PATIENCE_S,
                check=False,
                env={name: env[name] for name in _NEEDED if name in env},
            )
        except (OSError, subprocess.TimeoutExpired) as failure:
            raise ReconcilerError(
                f"the approvals cannot be verified: ssh-keygen does not run ({failure})",
                help="install OpenSSH 8.9 or newer",
            ) from failure
    if done.returncode == 0:
        return ""
    return done.stderr.decode(errors="replace").strip() or "ssh-keygen does not accept the signature"
