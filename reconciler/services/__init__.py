"""All HTTP: the transport, the clients of platform and providers, and the meaning of their answers."""
