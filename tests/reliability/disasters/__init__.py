"""Disasters that befall a team, as histories of real processes over each place that a state can have."""
