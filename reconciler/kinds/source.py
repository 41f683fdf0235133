"""The source of a secret value, as manifests write it: exactly one, and never the value itself."""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import ConfigDict
from pydantic import Field as Describe

from reconciler.core.diagnostics import Diagnostic, error
from reconciler.core.steps import SecretRef
from reconciler.kinds.manifest import TEXT_PATTERN, Locate, Spec, point_at_patch

ARMOR = "-----BEGIN AGE ENCRYPTED FILE-----"
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
_KEY = r"^[^\[\x00-\x1f\x7f]+$"  # sops takes every `[` for the begin of a component
_PRIVATE_KEY = re.compile(r"\s*(AGE-SECRET-KEY-|-----BEGIN [A-Z ]*PRIVATE KEY)", re.IGNORECASE)

# They hold our own credentials, the state's address among them. No program that gives a value gets them.
OWN_CREDENTIALS = frozenset(
    {
        *("RECONCILE_TOKEN", "RECONCILE_STATE", "RECONCILE_AGE_IDENTITY"),
        *("GITHUB_TOKEN", "GH_TOKEN", "GITLAB_TOKEN", "GITEA_TOKEN"),
    }
)
OWN_VARIABLES = OWN_CREDENTIALS | {"RECONCILE_AGE_IDENTITY_FILE"}  # none is a secret value of an app

Key = Annotated[str, Describe(pattern=_KEY)]
Argument = Annotated[str, Describe(pattern=r"^[^\x00]*$")]


class SopsSource(Spec):
    """A file that sops has encrypted, and the place of the value in it."""

    file: str = Describe(
        min_length=1,
        pattern=TEXT_PATTERN,
        description="Path of the file, relative to the manifest's directory.",
        examples=["secrets.enc.yaml"],
    )
    key: Key | list[Key | int] | None = Describe(
        None,
        description="Path to the value, such as database.password, or a list of keys. Default: all of it.",
        examples=["database.password"],
    )


class ValueSource(Spec):
    """Where the value comes from: exactly one of these."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"exec": ["pass", "show", "database"], "timeout_s": 60}]}
    )

    env: str | None = Describe(
        None, pattern=VARIABLE, description="Name of an environment variable.", examples=["DB_PASSWORD"]
    )
    file: str | None = Describe(
        None,
        min_length=1,
        pattern=TEXT_PATTERN,
        description="Path of a file, relative to the manifest's directory.",
        examples=["api-key.txt"],
    )
    age: str | None = Describe(
        None,
        min_length=1,
        description="Path of a file encrypted with age, relative to the manifest's directory; "
        "or the armored text itself.",
        examples=["api-key.age"],
    )
    sops: SopsSource | None = Describe(
        None,
        description="A value in a file encrypted with sops.",
        examples=[{"file": "secrets.enc.yaml", "key": "database.password"}],
    )
    exec: list[Argument] | None = Describe(
        None,
        min_length=1,
        description="Program and arguments; its standard output is the value. Run without a shell, "
        "if `secrets.exec` of reconcile.yaml allows the program.",
        examples=[["pass", "show", "database"]],
    )
    timeout_s: int | None = Describe(
        None, ge=1, le=600, description="How long `sops` or `exec` may take; default: 30 seconds."
    )

    @property
    def is_given(self) -> bool:
        """Whether it names a source: manifests with errors may name none."""
        return any(getattr(self, name) is not None for name in type(self).model_fields if name != "timeout_s")

    @property
    def place(self) -> tuple[str, ...]:
        """The path, inside a checked source, of its value or of its file's name."""
        given = next(name for name in type(self).model_fields if getattr(self, name) is not None)
        return (given, "file") if given == "sops" else (given,)


def check_source(source: ValueSource, path: tuple[str, ...], span: Locate) -> Iterable[Diagnostic]:
    """Yield problems of the source at `path` of the manifest that its field types cannot express."""
    written = source.model_fields_set  # sources with an invalid value too
    offered = [name for name in type(source).model_fields if name != "timeout_s"]
    given = [name for name in offered if name in written]
    if len(given) > 1 or not written - {"timeout_s"}:
        problem = error(
            "one-of",
            f"`{path[-1]}` has {len(given)} sources" if given else f"`{path[-1]}` has no source",
            span(*path),
            label=", ".join(given),
            help=f"give exactly one of {', '.join(f'`{name}`' for name in offered[:-1])} and `{offered[-1]}`",
        )
        yield point_at_patch(
            problem, [(*path, name) for name in given], [(*path, name) for name in offered], span
        )
    elif "timeout_s" in written and not {"sops", "exec"} & written:
        yield error(
            "invalid-value",
            f"`timeout_s` has no meaning in `{path[-1]}`",
            span(*path, "timeout_s"),
            help="remove it: only `sops` and `exec` run a program",
        )
    keys = [name for name in ("file", "age") if is_private_key(getattr(source, name) or "")]
    if keys:
        yield error(
            "secret-literal",
            f"there is a private key in `{'.'.join(path)}.{keys[0]}`",
            span(*path, keys[0]),
            help="write the path of the encrypted file there; this key is now exposed: create another one",
        )
    elif source.age is not None and not is_armored(source.age) and not source.age.isprintable():
        yield error(
            "invalid-value",
            f"`{'.'.join(path)}.age` is neither a path nor armored text",
            span(*path, "age"),
            help=f"armored text begins with {ARMOR}; write it as a block: `age: |`",
        )
    if source.exec is not None and not source.exec[0]:
        yield error("invalid-value", f"`{'.'.join(path)}.exec` names no program", span(*path, "exec"))


def source_ref(source: ValueSource, manifest: str) -> SecretRef:
    """Return the reference for a checked source. `manifest`: the file that holds it, relative to the root."""
    folder = PurePosixPath(manifest).parent
    timeout_s = source.timeout_s or 0
    if source.env is not None:
        return SecretRef("env", source.env)
    if source.file is not None:
        return SecretRef("file", str(folder / source.file))
    if source.age is not None:
        return SecretRef("age", source.age if is_armored(source.age) else str(folder / source.age))
    if source.sops is not None:
        return SecretRef("sops", str(folder / source.sops.file), _components(source.sops.key), timeout_s)
    return SecretRef("exec", parts=tuple(source.exec or ()), timeout_s=timeout_s)


def is_private_key(text: str) -> bool:
    """Whether `text`, which should name a file, begins like an identity of age or an SSH key."""
    return _PRIVATE_KEY.match(text) is not None


def is_armored(age: str) -> bool:
    """Whether `age` is the encrypted text itself, not the path of a file."""
    return age.lstrip().startswith(ARMOR)


def _components(key: str | list[str | int] | None) -> tuple[str, ...]:
    """Return the components as sops writes them: keys in quotes, and list indices without."""
    if isinstance(key, str):
        return tuple(part if part.isdecimal() else f'"{part}"' for part in key.split("."))
    return tuple(str(part) if isinstance(part, int) else f'"{part}"' for part in key or ())
