"""Approvals bound to content: which changes need one, what is signed, and who may sign."""
