"""A real git repository in a directory of the test, out of reach of the user's configuration."""

import os
import subprocess
from pathlib import Path

ISOLATED = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "3",
    "GIT_CONFIG_KEY_0": "user.name",
    "GIT_CONFIG_VALUE_0": "A tester",
    "GIT_CONFIG_KEY_1": "user.email",
    "GIT_CONFIG_VALUE_1": "tester@example.com",
    "GIT_CONFIG_KEY_2": "protocol.file.allow",  # submodules of the same disk
    "GIT_CONFIG_VALUE_2": "always",
}


def git(root: Path, *arguments: str) -> str:
    """What `git` prints."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", *arguments],
        cwd=root,
        env={**env, **ISOLATED},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def commit(root: Path, message: str = "a change") -> str:
    """Commit all that is there; the id of the commit."""
    git(root, "add", "-A")
    git(root, "commit", "-q", "--allow-empty", "-m", message)
    return git(root, "rev-parse", "HEAD")
