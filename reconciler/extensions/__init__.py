"""Extension providers, from both sides: calls to them, and the kit that they are built with."""
