"""Carrying a plan out: intent, one send, outcome, wait. Everything durable goes through the journal."""
