"""Data and protocols that all other parts use: resources, calls, diagnostics, errors, clock and reporter."""
