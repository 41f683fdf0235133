"""`reconcile inventory`: what there is on the platform, who owns it, and what it costs."""

from pathlib import Path

from reconciler.cli import options
from reconciler.cli.chosen_state import ChosenState
from reconciler.cli.command_line import command_line
from reconciler.cli.event_loop import run
from reconciler.cli.import_ import FolderPath
from reconciler.cli.metrics import is_asked
from reconciler.cli.output import emit
from reconciler.cli.verb import DONE, FAILED, code_of, flag, option, verb
from reconciler.core.diagnostics import has_errors
from reconciler.core.extras import require_extra
from reconciler.importing.files import Planned, arrange, declared, put_all
from reconciler.inventory.page import Inventory, inventory_report
from reconciler.inventory.prices import prices_of, read_prices
from reconciler.inventory.take import take_inventory
from reconciler.manifests.files import name_of
from reconciler.project.desired import origin_here


@verb("inventory", options.NO_PAGER, report="inventory")
def command(
    chosen: ChosenState,
    prices: Path | None = option(
        "--prices", "CSV file of prices; default: `prices` in reconcile.yaml.", type=options.FILE
    ),
    record: bool = flag("--record", "Keep what is seen, as apply and the controller do."),
    propose: Path | None = option(
        "--propose-removal",
        "Write manifests that adopt undeclared volumes for their removal, for a pull request.",
        type=FolderPath(file_okay=False, path_type=Path),
        metavar="DIR",
    ),
) -> int:
    """List all that is in the apps and organizations which manifests and state name.

    Declared or not, with its size, its snapshots or backups, since when a volume has had no machine, and the
    price of a month. Sends nothing but GET, one for each volume's snapshots. --propose-removal takes volumes
    that our own looks have seen without a machine for 7 days, and removes nothing: a plan does, with a last
    snapshot and an approval. Exit 1 when something could not be read.
    """
    config = chosen.config
    if is_asked():
        require_extra("controller", "the format openmetrics")
    known = read_prices(prices, Path.cwd()) if prices is not None else prices_of(config)
    read, loaded, others = declared(config, propose)

    async def work() -> tuple[Inventory, list[Planned]]:
        async with chosen.project() as project:
            found = await take_inventory(
                project,
                loaded,
                origin_here(config),
                config.root,
                others,
                prices=known,
                records=record,
                proposes=propose is not None,
            )
        if propose is None:
            return found, []
        planned = arrange(found.removals, check=lambda more: read([more]), out=propose, root=config.root)
        await put_all(planned)
        return found, planned

    found, planned = run(work)
    if is_asked():
        from reconciler.controller.metrics import text_of_inventory  # needs the extra

        command_line().metrics = text_of_inventory(found.items, found.context)
    files = [name_of(str(file.change.path), config.root) for file in planned]
    emit(inventory_report(found, files), paged=True)
    return code_of(found.problems, FAILED if has_errors(found.problems) else DONE)
