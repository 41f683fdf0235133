"""Keys of `click.Context.meta`: what belongs to one command line, for everything that runs below it."""

TEXTS = "reconcile.texts"  # the SourceTexts of this command line
NO_PAGER = "reconcile.no_pager"  # whether no pager is wanted
