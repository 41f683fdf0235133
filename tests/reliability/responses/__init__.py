"""Mutated answers of the platform, given to every verb that reads them."""
