"""What answers over HTTP: the transport, clients, what an answer means, and each GET once."""
