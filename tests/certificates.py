"""A server that speaks TLS with a certificate of our own authority, made by openssl."""

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Tls:
    """`authority`: the file of who signed the certificate of the server at `port`."""

    authority: Path
    port: int


@contextmanager
def greeting(name: str, folder: Path, *, as_postgres: bool = False) -> Iterator[Tls]:
    """Shows a certificate for the host `name`, and hangs up. `as_postgres`: first answers what libpq asks."""
    authority, context = certified(name, folder)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                try:
                    if as_postgres and client.recv(8):
                        client.sendall(b"S")
                    context.wrap_socket(client, server_side=True).close()
                except OSError:
                    client.close()  # it does not trust the certificate

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield Tls(authority, listener.getsockname()[1])
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def certified(name: str, folder: Path) -> tuple[Path, ssl.SSLContext]:
    """What a server at the host `name` speaks TLS with, and the file of who signed its certificate."""
    folder.mkdir(exist_ok=True)
    authority, authority_key = folder / "authority.pem", folder / "authority.key"
    certificate, key = folder / "server.pem", folder / "server.key"
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
    new = ("openssl", "req", "-x509", *curve, "-nodes", "-days", "2")
    own = ("-addext", f"subjectAltName=DNS:{name}", "-addext", "basicConstraints=critical,CA:FALSE")
    signed = ("-CA", authority, "-CAkey", authority_key)
    use = ("-addext", "keyUsage=critical,keyCertSign")  # Python 3.13 asks for it
    _run(*new, "-subj", "/CN=authority", *use, "-keyout", authority_key, "-out", authority)
    _run(*new, "-subj", f"/CN={name}", *own, *signed, "-keyout", key, "-out", certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return authority, context


def _run(*arguments: str | Path) -> None:
    subprocess.run(arguments, check=True, capture_output=True)
