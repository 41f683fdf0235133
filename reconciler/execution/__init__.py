"""Carries out a plan: intent, one send, outcome, wait. All durable facts go through the journal."""
