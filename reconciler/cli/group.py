"""A group of verbs whose modules are imported only when a verb is called: `--help` stays instant."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem


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
