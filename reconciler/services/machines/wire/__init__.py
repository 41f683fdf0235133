"""The platform's JSON as pydantic models, shared by the client and the sandbox, and nothing else.

Reading is tolerant: every field may be missing or null, unknown fields and
unknown enum values are kept. Missing means unknown, never a difference.
"""
