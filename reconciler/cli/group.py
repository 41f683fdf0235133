"""A group of verbs, most of them imported only when they are called: `--help` stays instant."""

from collections.abc import Mapping
from importlib import import_module
from keyword import iskeyword
from typing import Any

import click
from click.shell_completion import CompletionItem


class Group(click.Group):
    """`late`: the verbs with a module of their own, `reconciler.cli.VERB`, and a line about each.

    They are listed in that order, before those that are declared where the group is. `moved`: verbs of the
    last release, and what to type instead.
    """

    def __init__(
        self,
        *arguments: Any,
        late: Mapping[str, str] | None = None,
        moved: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self._late = late or {}
        self._moved = moved or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._late, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._late:
            return super().get_command(ctx, cmd_name)
        module = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name  # no module can be called `import`
        command: click.Command = import_module(f"reconciler.cli.{module}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        limit = formatter.width - 6 - max(map(len, self.list_commands(ctx)))
        own = [(name, each.get_short_help_str(limit)) for name, each in sorted(self.commands.items())]
        with formatter.section("Commands"):
            formatter.write_dl([*self._late.items(), *own])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        late = [CompletionItem(name, help=help) for name, help in self._late.items()]
        here = sorted(self.commands.items())
        own = [CompletionItem(name, help=each.get_short_help_str()) for name, each in here]
        verbs = [item for item in [*late, *own] if item.value.startswith(incomplete)]
        return [*verbs, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        if args and args[0] in self._moved:
            old = " ".join([*ctx.command_path.split()[1:], args[0]])
            raise click.UsageError(f"`{old}` is `{self._moved[args[0]]}` now")
        if args and args[0] not in names and not args[0].startswith("-"):
            from reconciler.core.words import did_you_mean

            hint = did_you_mean(args[0], names)
            ctx.fail(f"no such command `{args[0]}`{hint and f'; {hint}'}")
        return super().resolve_command(ctx, args)
