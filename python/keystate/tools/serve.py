"""``keystate serve``: a page about a checkpoint, and its committed state, by HTTP."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from pyspark.sql import SparkSession

from keystate import admin
from keystate._jvm import bridge
from keystate._types.plain import to_json
from keystate.checkpoints.history import KeyReader
from keystate.checkpoints.lookup import Target, key_from_text, map_key_from_text
from keystate.errors import KeystateError, StateTypeError
from keystate.tools.page import CHARTS_JS, PAGE_JS, charts_js, document, page_js, simple_page
from keystate.tools.page.timeline import timeline

_PARAMETERS = ("key", "map_key", "start", "end", "operator")

# A page loads nothing from elsewhere, and runs no script but the two that come with it.
_POLICY = "default-src 'none'; script-src 'self'; connect-src 'self'; img-src data: blob:; " + (
    "style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)


class _Refused(Exception):
    """A request that gets no answer."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class StateServer(ThreadingHTTPServer):
    """Answers questions for the state of one checkpoint, each from its last committed batch.

    It only reads. Every request needs the token: in a header or, from a browser, in a cookie, which
    it gets for the token in the address of the page.
    """

    daemon_threads = True
    most_requests = 64  # at a time; others wait to be accepted

    def __init__(
        self, session: SparkSession, checkpoint: str, address: tuple[str, int], token: str
    ) -> None:
        super().__init__(address, _Handler)
        self._session = session
        self._checkpoint = checkpoint
        self._token = token.encode()
        self._free = threading.BoundedSemaphore(self.most_requests)
        # What never changes of a state; threads may make one twice.
        self._targets: dict[tuple[str, int | None], Target] = {}
        # The page of a batch is made once; one thread makes it.
        self._page_lock = threading.Lock()
        self._page: tuple[int | None, str] | None = None
        made_of = b"cookie of keystate serve " + self._token
        #: What a browser sends back: a name for each port, for browsers have cookies by host only.
        self.cookie = f"keystate{self.server_address[1]}={hashlib.sha256(made_of).hexdigest()}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answers in a thread, once there are few enough."""
        self._free.acquire()
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """The thread's part."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def knows(self, authorization: str | None, cookies: str | None) -> bool:
        """Whether a request has the token."""
        given = (authorization or "").encode("utf-8", "replace")
        if hmac.compare_digest(given, b"Bearer " + self._token):
            return True
        found = [one.strip().encode("utf-8", "replace") for one in (cookies or "").split(";")]
        return any(hmac.compare_digest(one, self.cookie.encode()) for one in found)

    def lets_in(self, path: str, query: str) -> bool:
        """Whether a request is for the page, with the token in its address."""
        given = dict(parse_qsl(query)).get("token", "").encode("utf-8", "replace")
        return path == "/" and hmac.compare_digest(given, self._token)

    def page(self) -> str:
        """The page about the state after the last batch."""
        found = admin.inspect(self._checkpoint, spark=self._session)
        with self._page_lock:
            if self._page is None or self._page[0] != found["batch"]:
                told = bridge.statistics(self._session, found)
                limit = bridge.max_entries(self._session)
                made = document(found, told, None, live=True, limit=limit)
                self._page = (found["batch"], made)
            return self._page[1]

    def history(self, query: str) -> str:
        """A page with what each batch changed of a key."""
        given = _parameters(query, ("key", "operator"))
        reader = KeyReader(self._session, self._checkpoint, _operator(given))
        history = reader.history(key_from_text(reader.key_type, given["key"]))
        return simple_page(self._checkpoint, f'<p><a href="/">back</a></p>{timeline(history)}')

    def answer(self, path: str, query: str) -> Any:
        """The answer to a request, as JSON."""
        match [unquote(part) for part in path.split("/")]:
            case ["", "inspect"]:
                return admin.inspect(self._checkpoint, spark=self._session)
            case ["", "state", name]:
                return self._lookup(name, query)
        there = "there are /, /inspect, /state/NAME?key=KEY and /history?key=KEY"
        raise _Refused(HTTPStatus.NOT_FOUND, there)

    def _lookup(self, name: str, query: str) -> Any:
        given = _parameters(query, _PARAMETERS)
        operator = _operator(given)
        place = (name, operator)
        target = self._targets.get(place)
        if target is None:
            target = Target(self._session, self._checkpoint, name, operator)
            self._targets[place] = target
        key = key_from_text(target.key_type, given["key"])
        parts = [map_key_from_text(target, given.get(part)) for part in ("map_key", "start", "end")]
        value = target.read(key, *parts)
        return {
            "operator": target.operator,
            "state": target.name,
            "kind": target.kind,
            "key": to_json(list(key)),
            "found": value is not None,
            "value": to_json(value),
        }


def _parameters(query: str, known: Sequence[str]) -> dict[str, str]:
    """The parameters of a request, which needs a key."""
    given = dict(parse_qsl(query, keep_blank_values=True))
    unknown = sorted(given.keys() - set(known))
    if unknown or "key" not in given:
        what = f"unknown parameter {unknown[0]!r}" if unknown else "key= is missing"
        raise _Refused(HTTPStatus.BAD_REQUEST, f"{what}; there are {', '.join(known)}")
    return given


def _operator(given: dict[str, str]) -> int | None:
    return int(given["operator"]) if "operator" in given else None


class _Handler(BaseHTTPRequestHandler):
    server: StateServer
    server_version = "keystate"
    sys_version = ""
    # A client that is slow to ask holds only its own thread, and not for ever.
    timeout = 30

    def do_GET(self) -> None:
        """Answers a question."""
        try:
            parts = urlsplit(self.path)  # a ValueError for what is no path
            if self.server.lets_in(parts.path, parts.query):
                self._to_page()
                return
            if not self.server.knows(self.headers.get("Authorization"), self.headers.get("Cookie")):
                raise _Refused(
                    HTTPStatus.UNAUTHORIZED,
                    "send the header Authorization: Bearer TOKEN; in a browser open /?token=TOKEN",
                )
            scripts = {f"/{CHARTS_JS}": charts_js(), f"/{PAGE_JS}": page_js()}
            script = scripts.get(parts.path)
            if script is not None:
                self._send_script(script)
            elif parts.path == "/":
                self._send_page(self.server.page())
            elif parts.path == "/history":
                self._send_page(self.server.history(parts.query))
            else:
                self._send(HTTPStatus.OK, self.server.answer(parts.path, parts.query))
        except _Refused as e:
            self._send(e.status, {"error": e.status.phrase, "message": str(e)})
        except (StateTypeError, ValueError) as e:
            code = getattr(e, "code", HTTPStatus.BAD_REQUEST.phrase)
            self._send(HTTPStatus.BAD_REQUEST, {"error": code, "message": str(e)})
        except KeystateError as e:
            unknown = e.code == "KEYSTATE_NO_SUCH_STATE"
            status = HTTPStatus.NOT_FOUND if unknown else HTTPStatus.INTERNAL_SERVER_ERROR
            self._send(status, {"error": e.code, "message": str(e)})
        except Exception as e:
            message = f"{type(e).__name__}: {e}"
            self._send(
                HTTPStatus.INTERNAL_SERVER_ERROR, {"error": "KEYSTATE_ERROR", "message": message}
            )

    def _send(self, status: HTTPStatus, content: Any) -> None:
        self._write(status, "application/json", json.dumps(content).encode())

    def _send_page(self, page: str) -> None:
        self._write(HTTPStatus.OK, "text/html; charset=utf-8", page.encode())

    def _send_script(self, path: Path) -> None:
        self._write(HTTPStatus.OK, "text/javascript; charset=utf-8", path.read_bytes(), 3600)

    def _to_page(self) -> None:
        """Gives a browser the cookie, and takes the token out of its address."""
        self.send_response(HTTPStatus.SEE_OTHER)
        self.send_header("Location", "/")
        self.send_header("Set-Cookie", f"{self.server.cookie}; Path=/; HttpOnly; SameSite=Strict")
        self.send_header("Content-Length", "0")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()

    def _write(self, status: HTTPStatus, kind: str, body: bytes, seconds: int = 0) -> None:
        """Sends an answer that the browser may keep for so many seconds."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        kept = f"private, max-age={seconds}" if seconds else "no-store"
        self.send_header("Cache-Control", kept)
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        if status is HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: the keys that are asked for are nobody else's business."""
