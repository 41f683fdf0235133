"""A group of verbs whose modules are imported only when a verb is called: `--help` stays instant.

With the options that verbs share: each may be given before the verb, too.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from reconciler.reports.formats import Format


class Shared(click.Option):
    """An option of several verbs. A group hands it on to the verb that follows."""

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """As click's; a group only puts the words of the option behind the verb."""
        if not isinstance(ctx.command, click.Group):
            return super().handle_parse_result(ctx, opts, args)
        if self.name in opts and args:
            word = max(self.opts, key=len)
            args = [args[0], word if self.is_flag else f"{word}={opts[self.name]}", *args[1:]]
        return None, args


class FormatName(click.ParamType["Format"]):
    """A format of the verb's kind of report. Formats are imported only when one is asked for."""

    name = "format"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> "Format":
        from reconciler.reports.formats import Format, find_format

        if isinstance(value, Format):
            return value
        try:
            found = find_format(value)
        except Exception as defect:
            self.fail(defect_in(value, defect))
        if found is None or not found.can_show(_report_of(ctx)):
            self.fail(f"`{value}` is not a format of this report: it has {', '.join(_formats(ctx))}")
        return found

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return f"[{'|'.join(_formats(ctx))}]" if _report_of(ctx) else "FORMAT"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        return [CompletionItem(name) for name in _formats(ctx) if name.startswith(incomplete)]


def defect_in(name: str, defect: Exception) -> str:
    """The message about a format that cannot be imported, or fails."""
    return f"a defect in the format {name}: {type(defect).__name__}: {defect}; use another format"


def _report_of(ctx: click.Context | None) -> str:
    """The kind of report that the verb prints; "" for a group."""
    return getattr(ctx.command, "report", "") if ctx is not None else ""


def _formats(ctx: click.Context | None) -> Sequence[str]:
    """The formats of the verb's kind of report."""
    from reconciler.reports.formats import formats_for

    return formats_for(_report_of(ctx) or "page")


def _environments(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The environments, for a shell."""
    from reconciler.cli.addresses import complete_environment  # only a Tab needs them

    return complete_environment(ctx, param, incomplete)


def _remember_format(context: click.Context, option: click.Parameter, value: "Format") -> None:
    """Keep the format for what is printed, also about mistakes in other options."""
    from reconciler.cli.command_line import command_line

    command_line().format = value


ENV = Shared(
    ["--env"],
    metavar="NAME",
    envvar="RECONCILE_ENV",
    default="",
    shell_complete=_environments,
    help="Environment: overlays/NAME patches the manifests, with a state of its own; base for none.",
)
STATE = Shared(["--state", "state_url"], metavar="URL", help="State to use, such as sqlite:PATH.")
SANDBOX = Shared(
    ["--sandbox"],
    is_flag=True,
    help="Use an embedded emulated platform, with a state of its own, kept under .reconcile/.",
)
LOCK_TIMEOUT = Shared(
    ["--lock-timeout"],
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Wait up to SECONDS for a lock held by another run.",
)
REASON = Shared(["--reason"], default="", metavar="TEXT", help="Why, for the journal: `history` shows it.")
OUTPUT = Shared(
    ["-o", "--output"],
    type=FormatName(),
    default="text",
    show_default=True,
    expose_value=False,
    callback=_remember_format,
    is_eager=True,  # what goes wrong with other options is reported in this format
    help="Format of the report.",
)


class Verb(NamedTuple):
    """A verb that is not imported yet: its module below `reconciler.cli`, and its line in `--help`."""

    module: str
    help: str


class Group(click.Group):
    """Lists verbs without importing them.

    `late`: verbs by name, in the order of `--help`. They come before those that the group's own module
    declares. `moved`: verbs of the last release, and the words to type instead.
    """

    def __init__(
        self,
        *arguments: Any,
        late: Mapping[str, Verb] | None = None,
        moved: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self.params += [ENV, STATE, SANDBOX, LOCK_TIMEOUT, REASON, OUTPUT]
        self._late = late or {}
        self._moved = moved or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All verbs, in the order of `--help`."""
        return [*self._late, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, which its module makes. Imports the module."""
        if cmd_name not in self._late:
            return super().get_command(ctx, cmd_name)
        module = import_module(f"reconciler.cli.{self._late[cmd_name].module}")
        commands = (made for made in vars(module).values() if isinstance(made, click.Command))
        return next(command for command in commands if command.name == cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the section "Commands" of `--help`, from the lines given with the verbs."""
        limit = formatter.width - 6 - max(map(len, self.list_commands(ctx)))
        with formatter.section("Commands"):
            formatter.write_dl(list(self._help_lines(limit).items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Verbs and options that begin with `incomplete`. No verb's module is imported for it."""
        lines = self._help_lines().items()
        verbs = [CompletionItem(name, help=line) for name, line in lines if name.startswith(incomplete)]
        return [*verbs, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's; for an unknown verb, a usage error with the new word or the nearest one."""
        names = self.list_commands(ctx)
        if args and args[0] in self._moved:
            old = " ".join([*ctx.command_path.split()[1:], args[0]])
            raise click.UsageError(f"`{old}` is `{self._moved[args[0]]}` now")
        if args and args[0] not in names and not args[0].startswith("-"):
            from reconciler.core.words import did_you_mean  # only a typing mistake needs it

            hint = did_you_mean(args[0], names)
            ctx.fail(f"no such command `{args[0]}`{hint and f'; {hint}'}")
        return super().resolve_command(ctx, args)

    def _help_lines(self, limit: int = 45) -> dict[str, str]:
        """Verbs and their short help, at most `limit` characters of those that are declared here."""
        own = {name: command.get_short_help_str(limit) for name, command in sorted(self.commands.items())}
        return {name: verb.help for name, verb in self._late.items()} | own
