"""Keys of `click.Context.meta`: what one option leaves for everything that runs below it."""

ENVIRONMENT = "reconcile.env"  # the name of the chosen environment, or ""
NO_PAGER = "reconcile.no_pager"  # whether no pager is wanted
