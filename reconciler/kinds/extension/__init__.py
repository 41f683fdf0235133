"""Resources of extension providers, and the secrets that they bring to an app."""
