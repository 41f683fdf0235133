"""Doubles of GitHub, GitLab and Gitea over HTTP on loopback: what `comment` needs of their APIs.

What the hosts publish (tests/hosts/published) judges each request, and each answer of the double: its test
fails at the end where one is not as described. What no description tells is from their documentation: limits
of lengths, orders of lists, who may do what.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.hosts.published import completed, problems_of_answer, published
from tests.servers import in_a_thread

HEAD, OLDER, MERGE = "a" * 40, "b" * 40, "c" * 40
REPOSITORY, NUMBER = "acme/shop", 7
TOKEN = "t0ken-of-the-host"
ACTIONS = "github-actions[bot]"


@dataclass
class Written:
    """A comment as the host holds it."""

    id: int
    author: str
    body: str
    system: bool = False


@dataclass
class Fault:
    """What happens to the next `times` requests of `method` whose path holds `path`.

    `after`: the request has its effect first. `status` 0: the connection is cut.
    """

    method: str
    path: str
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    after: bool = False
    times: int = 1


@dataclass
class World:
    """One pull request. `me`: whom the token writes as; "" where `GET /user` is refused, as for apps.

    `log`: method and path of each request. `strangers`: tokens that came and are not known. `wrong`: what
    of requests and answers is not as the host describes them.
    """

    kind: str
    me: str = "robot"
    reads_only: bool = False
    head: str = HEAD
    merge: str = MERGE
    comments: list[Written] = field(default_factory=list)
    statuses: list[dict[str, Any]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    log: list[tuple[str, str]] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    url: str = ""
    date: str = "Mon, 01 Jun 2026 12:10:00 GMT"
    token: str = TOKEN

    @property
    def author(self) -> str:
        return self.me or ACTIONS

    @property
    def api(self) -> str:
        return f"{self.url}{ {'github': '/api/v3', 'gitlab': '/api/v4', 'gitea': '/api/v1'}[self.kind] }"

    @property
    def edits(self) -> str:
        """The method of a request that changes a comment."""
        return "PUT" if self.kind == "gitlab" else "PATCH"

    @property
    def listed(self) -> str:
        """The end of the path to all comments."""
        return "/notes" if self.kind == "gitlab" else "/comments"

    def say(self, author: str, body: str, *, system: bool = False) -> Written:
        comment = Written(len(self.comments) + 1, author, body, system)
        self.comments.append(comment)
        return comment

    def seen(self, method: str) -> list[str]:
        return [path for verb, path in self.log if verb == method]


Reply = tuple[int, Any, Mapping[str, str]]
Answering = Callable[[World, str, str, Mapping[str, str], Any], Reply]


def github(world: World, method: str, path: str, query: Mapping[str, str], body: Any) -> Reply:
    """Comments are listed oldest first, 30 on a page unless `per_page` (at most 100) says otherwise."""
    repository = f"/repos/{REPOSITORY}"
    if (method, path) == ("GET", "/user"):
        if not world.me:
            return 403, {"message": "Resource not accessible by integration"}, {}
        return 200, {"login": world.me, "id": 1, "type": "User"}, {}
    if (method, path) == ("GET", f"{repository}/pulls/{NUMBER}"):
        return 200, {"number": NUMBER, "head": {"sha": world.head}, "merge_commit_sha": world.merge}, {}
    if path == f"{repository}/issues/{NUMBER}/comments" and method == "GET":
        size = min(int(query.get("per_page", "30")), 100)
        return _page(world, query, size, [_github(world, each) for each in world.comments])
    if method != "GET" and world.reads_only:
        return 403, {"message": "Resource not accessible by integration"}, {}
    if path == f"{repository}/issues/{NUMBER}/comments" and method == "POST":
        return _refused_text(body, 65_536) or (201, _github(world, world.say(world.author, body["body"])), {})
    if found := re.fullmatch(rf"{repository}/issues/comments/(\d+)", path):
        return _edited(world, int(found[1]), body, 65_536, _github) if method == "PATCH" else (405, None, {})
    if found := re.fullmatch(rf"{repository}/statuses/([0-9a-f]+)", path):
        return _status(world, found[1], body, {"success", "failure", "pending", "error"}, 140)
    return 404, {"message": "Not Found"}, {}


def gitea(world: World, method: str, path: str, query: Mapping[str, str], body: Any) -> Reply:
    """`issueGetComments` has no parameters of paging: all of them come at once. Anybody has a user."""
    if (method, path) == ("GET", "/user"):
        return 200, {"login": world.author, "id": -2}, {}
    if method == "GET" and path.endswith("/comments"):
        return 200, [_github(world, each) for each in world.comments], {}
    return github(world, method, path, query, body)


def gitlab(world: World, method: str, path: str, query: Mapping[str, str], body: Any) -> Reply:
    """Notes are listed newest first unless `sort=asc`; the system writes some. 20 on a page by default."""
    project = "/projects/42"
    request = f"{project}/merge_requests/{NUMBER}"
    if (method, path) == ("GET", "/user"):
        return 200, {"id": 1, "username": world.author}, {}
    if (method, path) == ("GET", request):
        return 200, {"iid": NUMBER, "sha": world.head, "merge_commit_sha": None}, {}
    if (method, path) == ("GET", f"{request}/notes"):
        ordered = world.comments if query.get("sort") == "asc" else world.comments[::-1]
        size = min(int(query.get("per_page", "20")), 100)
        return _page(world, query, size, [_gitlab(world, each) for each in ordered])
    if world.reads_only:
        return 403, {"message": "403 Forbidden"}, {}
    if (method, path) == ("POST", f"{request}/notes"):
        return _refused_text(body, 1_000_000) or (
            201,
            _gitlab(world, world.say(world.author, body["body"])),
            {},
        )
    if found := re.fullmatch(rf"{request}/notes/(\d+)", path):
        return _edited(world, int(found[1]), body, 1_000_000, _gitlab) if method == "PUT" else (405, None, {})
    if found := re.fullmatch(rf"{project}/statuses/([0-9a-f]+)", path):
        last: Mapping[str, Any] = next(
            (each for each in reversed(world.statuses) if each["name"] == body["name"]), {}
        )
        if last.get("state") == body["state"] == "pending":
            return 400, {"message": "Cannot transition status via :enqueue from :pending"}, {}
        return _status(world, found[1], body, {"success", "failed", "pending", "running", "canceled"}, 255)
    return 404, {"message": "404 Not Found"}, {}


ANSWERING: Mapping[str, Answering] = {"github": github, "gitlab": gitlab, "gitea": gitea}


def _github(world: World, comment: Written) -> dict[str, Any]:
    return {
        "id": comment.id,
        "body": comment.body,
        "user": {"login": comment.author} if comment.author else None,
        "html_url": f"{world.url}/{REPOSITORY}/pull/{NUMBER}#issuecomment-{comment.id}",
    }


def _gitlab(world: World, comment: Written) -> dict[str, Any]:
    return {
        "id": comment.id,
        "body": comment.body,
        "author": {"username": comment.author},
        "system": comment.system,
    }


def _page(world: World, query: Mapping[str, str], size: int, items: list[Any]) -> Reply:
    page = int(query.get("page", "1"))
    shown = items[(page - 1) * size : page * size]
    more = len(items) > page * size
    if world.kind == "gitlab":
        return 200, shown, {"x-next-page": str(page + 1) if more else ""}
    links = [f'<{world.url}/elsewhere?page={page + 1}>; rel="next"'] if more else []
    return 200, shown, {"link": ", ".join(links)} if len(items) > size else {}


def _refused_text(body: Any, most: int) -> Reply | None:
    if not isinstance(body, dict) or not isinstance(body.get("body"), str) or not body["body"]:
        return 422, {"message": "Validation Failed"}, {}
    if len(body["body"]) > most:
        return 422, {"message": f"body is too long (maximum is {most} characters)"}, {}
    return None


def _edited(
    world: World, id: int, body: Any, most: int, shown: Callable[[World, Written], dict[str, Any]]
) -> Reply:
    """Whoever may write may edit anybody's comment: nothing but the caller keeps those apart."""
    comment = next((each for each in world.comments if each.id == id), None)
    if comment is None:
        return 404, {"message": "Not Found"}, {}
    refused = _refused_text(body, most)
    if refused is None:
        comment.body = body["body"]
    return refused or (200, shown(world, comment), {})


def _status(world: World, commit: str, body: Any, states: set[str], most: int) -> Reply:
    if body.get("state") not in states or len(body.get("description", "")) > most:
        return 422, {"message": "Validation Failed"}, {}
    world.statuses.append({"commit": commit, **body})
    return 201, {"id": len(world.statuses), "creator": {"login": world.author}}, {}


def _token(kind: str, headers: Any) -> str:
    if kind == "gitlab":
        return str(headers.get("private-token", ""))
    scheme = "token " if kind == "gitea" else "Bearer "
    return str(headers.get("authorization", "")).removeprefix(scheme)


class _Handler(BaseHTTPRequestHandler):
    world: World
    protocol_version = "HTTP/1.0"

    def _serve(self) -> None:
        world, parts = self.world, urlsplit(self.path)
        length = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        base = urlsplit(world.api).path
        path = unquote(parts.path).removeprefix(base)
        query = {name: found[-1] for name, found in parse_qs(parts.query).items()}
        world.log.append((self.command, path))
        world.queries.append(parts.query)
        fault = self._fault(path)
        if fault is not None and not fault.after:
            self._fail(fault)
            return
        if _token(world.kind, self.headers) != world.token:
            world.strangers.append(_token(world.kind, self.headers))
            reply: Reply = (401, {"message": "Bad credentials"}, {})
        elif not parts.path.startswith(f"{base}/"):
            reply = (404, {"message": "Not Found"}, {})
        else:
            reply = self._as_described(parts.path.removeprefix(base), query, body)
        if fault is not None:
            self._fail(fault)
            return
        self._answer(*reply)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _serve  # noqa: N815

    def _as_described(self, sent: str, query: Mapping[str, str], body: Any) -> Reply:
        """The double's answer, where request and answer are as published."""
        world, described = self.world, published(self.world.kind)
        operation = described.operation(self.command, sent)
        if operation is None:
            return self._wrong(f"{self.command} {sent} is not described")
        problems = list(described.problems_of_request(operation, sent, query, body))
        if problems:
            return self._wrong(*(f"{operation.name}: {each}" for each in problems))
        status, document, headers = ANSWERING[world.kind](world, self.command, unquote(sent), query, body)
        document = completed(operation, status, document)
        problems = list(problems_of_answer(operation, status, document))
        if problems:
            return self._wrong(*(f"{operation.name}: {each}" for each in problems))
        return status, document, headers

    def _wrong(self, *problems: str) -> Reply:
        self.world.wrong += problems
        return 400, {"message": "; ".join(problems)}, {}

    def _fault(self, path: str) -> Fault | None:
        for fault in self.world.faults:
            if fault.times and fault.method == self.command and fault.path in path:
                fault.times -= 1
                return fault
        return None

    def _fail(self, fault: Fault) -> None:
        if not fault.status:
            self.close_connection = True
            return
        self._answer(fault.status, fault.body, fault.headers)

    def _answer(self, status: int, document: Any, headers: Mapping[str, str]) -> None:
        content = json.dumps(document).encode()
        self.send_response_only(status)
        for name, value in {"date": self.world.date, **headers}.items():
            self.send_header(name, value)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: the test asks the world."""


@contextmanager
def serving(kind: str, **details: Any) -> Iterator[World]:
    world = World(kind, **details)
    handler = type("Handler", (_Handler,), {"world": world})
    with in_a_thread(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as world.url:
        yield world
    assert world.wrong == [], "\n".join(world.wrong)
