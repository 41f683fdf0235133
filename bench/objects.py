"""An object store in memory that is as far away as one is told: `python -m bench.objects SECONDS`.

It speaks what the state needs of S3: conditional writes, reads, lists, deletions. Each answer comes SECONDS
after its request. The first line on stdout is `listening on URL`.
"""

import asyncio
import hashlib
import re
import sys
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

BUCKET = "states"
_NONE = b""


class Objects:
    """By key: body and tag."""

    def __init__(self) -> None:
        self._objects: dict[str, tuple[bytes, str]] = {}

    def answer(
        self, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> tuple[str, str, bytes]:
        """Status, tag and body."""
        url = urlsplit(target)
        key = unquote(url.path).removeprefix(f"/{BUCKET}").lstrip("/")
        if method == "GET" and not key:
            asked = parse_qs(url.query)
            return "200 OK", "", self._list(asked.get("prefix", [""])[0], flat="delimiter" in asked)
        if method == "POST":  # deletions come so
            keys = re.findall(r"<Key>(.*?)</Key>", body.decode())
            for gone in keys:
                self._objects.pop(unescape(gone), None)
            told = "".join(f"<Deleted><Key>{gone}</Key></Deleted>" for gone in keys)
            return "200 OK", "", f"<DeleteResult>{told}</DeleteResult>".encode()
        found = self._objects.get(key)
        if method == "PUT":
            return self._put(key, headers, body, found)
        if found is None:
            return "404 Not Found", "", b"<Error><Code>NoSuchKey</Code></Error>"
        return "200 OK", found[1], found[0]

    def _put(
        self, key: str, headers: dict[str, str], body: bytes, found: tuple[bytes, str] | None
    ) -> tuple[str, str, bytes]:
        there = found[1] if found is not None else ""
        wanted = "" if "if-none-match" in headers else headers.get("if-match", there)
        if wanted != there:
            return "412 Precondition Failed", "", b"<Error><Code>PreconditionFailed</Code></Error>"
        tag = f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
        self._objects[key] = body, tag
        return "200 OK", tag, _NONE

    def _list(self, prefix: str, *, flat: bool) -> bytes:
        found = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>2030-01-01T00:00:00.000Z</LastModified>"
            f"<ETag>{escape(tag)}</ETag><Size>{len(body)}</Size></Contents>"
            for key, (body, tag) in sorted(self._objects.items())
            if key.startswith(prefix) and not (flat and "/" in key.removeprefix(prefix))
        )
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{found}</ListBucketResult>".encode()


async def _serve(away_s: float) -> None:
    objects = Objects()

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                method, target, _ = line.decode().split(" ")
                headers: dict[str, str] = {}
                while (header := (await reader.readline()).decode().strip()) != "":
                    name, _, value = header.partition(":")
                    headers[name.lower()] = value.strip()
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                await asyncio.sleep(away_s)
                status, tag, content = objects.answer(method, target, headers, body)
                lines = [
                    f"HTTP/1.1 {status}",
                    f"content-length: {len(content)}",
                    "last-modified: Tue, 01 Jan 2030 00:00:00 GMT",
                    *([f"etag: {tag}"] if tag else []),
                ]
                writer.write(
                    "\r\n".join([*lines, "", ""]).encode() + (content if method != "HEAD" else _NONE)
                )
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connection, "127.0.0.1", 0)
    print(f"listening on http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(float(sys.argv[1])))
