"""Rehearsing a plan: on a twin of the platform, by the executor itself, clean and with faults."""
