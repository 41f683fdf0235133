"""Keys of `click.Context.meta`: what belongs to one command line, for everything that runs below it."""

TEXTS = "reconcile.texts"  # the SourceTexts of this command line
NO_PAGER = "reconcile.no_pager"  # whether no pager is wanted

UNTRUSTED = "RECONCILE_UNTRUSTED"  # the variable of --untrusted, which verbs without that option refuse
SETTINGS = "reconcile.settings"  # the ProjectSettings of this command line
REPORT = "reconcile.report"  # the last Report that was shown, whole
ROOT = "reconcile.root"  # of the project, where the settings of this command line are from
