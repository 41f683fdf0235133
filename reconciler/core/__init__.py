"""What every other part names: the core data, diagnostics, errors, the clock and the reporter."""
