"""Values in files that sops has encrypted, by the user's own `sops`.

Its messages are never shown: one about a line that it cannot read repeats the line. Its exit
codes say enough. Source: sops 3, `--help` and its exit codes.
"""

from collections.abc import Sequence

PROGRAM = "sops"
MISSING_HELP = "install sops 3 (getsops.io), and have it on PATH where plan and apply run"

_REASONS = {
    1: "it has no such key, or it is not encrypted with sops",
    2: "it cannot be read",
    24: "it is damaged",
    25: "a value in it is damaged, or was changed without sops",
    51: "it was changed without sops",
    52: "it was changed without sops",
    91: "the key is not valid",
    100: "there is no such file",
    128: "no key that can decrypt it is available",
}


def argv(program: str, file: str, components: Sequence[str]) -> list[str]:
    """The command that prints the value at `components` of `file`; without any, the whole file.

    `--decrypt`, not the subcommand that came with 3.9: every sops 3 knows it.
    """
    extract = ["--extract", "".join(f"[{each}]" for each in components)] if components else []
    return [program, "--decrypt", *extract, file]


def explain(code: int, file: str) -> str:
    reason = _REASONS.get(code)
    ended = f"sops ended with exit code {code}" if code >= 0 else f"sops was ended by signal {-code}"
    return f"`{file}` cannot be decrypted: {f'{reason} ({ended})' if reason else ended}"
