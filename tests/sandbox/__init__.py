"""The emulated platform, in process and over HTTP."""
