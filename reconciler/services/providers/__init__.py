"""Extension providers, as the platform calls them."""
