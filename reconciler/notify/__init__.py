"""Tells others how a run ended: events from its report, as messages to whom the settings name."""
