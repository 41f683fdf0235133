"""What the reconciler is held against, on the same machine in the same run."""
