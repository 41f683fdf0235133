"""Keys of `click.Context.meta`: what one option leaves for everything that runs below it."""

NO_PAGER = "reconcile.no_pager"  # of click's context: whether no pager is wanted
ENVIRONMENT = "reconcile.env"  # the name of the chosen environment, or ""
