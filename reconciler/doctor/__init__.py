"""Whether all that a run relies on is as it should be: `reconcile doctor`. Nothing here writes."""
