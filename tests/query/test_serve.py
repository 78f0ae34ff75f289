"""Lookups from outside of Python: by the command `keystate get`, and by HTTP."""

from __future__ import annotations

import datetime
import decimal
import http.client
import json
import re
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import keystate
import pytest
from keystate import KeyedProcessFunction, SortedMapStateDescriptor, ValueStateDescriptor
from keystate._types.ddl import parse_ddl
from keystate._types.plain import from_json, to_json
from keystate._types.waiting import wait_until
from keystate.errors import StateTypeError
from keystate.tools import command
from keystate.tools.serve import StateServer
from pyspark.sql import Row

SCHEMA = "user string, day date, value long"


class Kept(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.last = ctx.get_state(ValueStateDescriptor("last", "n long, at timestamp_ntz"))
        self.by_value = ctx.get_sorted_map_state(SortedMapStateDescriptor("by", "long", "string"))

    def process_element(self, row: Any, ctx: Any) -> None:
        self.last.update((row.value, datetime.datetime(2024, 1, 2, 3)))
        self.by_value.put(row.value, row.user)


@pytest.fixture
def fed(spark: Any, stream: Callable[[str], Any]) -> Any:
    fed = stream(SCHEMA)
    day = datetime.date(2024, 1, 1)
    fed.feed([("ann", day, 1), ("ann", day, 2), ("ann", day, 3), ("bob ü/?", day, 4)])
    fed.run(lambda df: keystate.keyed(df, "user", "day").process(Kept(), "x int"))
    return fed


ANN = '["ann", "2024-01-01"]'


def test_the_command(spark: Any, fed: Any, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(command, "_reader", lambda given: nullcontext(spark))

    def run(*arguments: str) -> tuple[int, Any]:
        code = command.main(["get", str(fed.checkpoint), *arguments])
        said = capsys.readouterr()
        return code, said.err if code == 2 else json.loads(said.out)

    assert run("last", ANN) == (0, {"n": 3, "at": "2024-01-02T03:00:00"})
    assert run("by", ANN, "--start", "2") == (0, [[2, "ann"], [3, "ann"]])
    assert run("by", ANN, "--map-key", "1") == (0, "ann")
    assert run("last", '["eve", "2024-01-01"]') == (1, None)
    for arguments, said in (
        (("none", ANN), "KEYSTATE_NO_SUCH_STATE"),
        (("last", "ann"), "is no struct<user:string,day:date>"),
        (("last", '["ann", "tomorrow"]'), "'tomorrow' is no date"),
        (("by", ANN, "--map-key", "x"), "map_key of state 'by'"),
        (("last", ANN, "--start", "1"), "is no map"),
    ):
        code, error = run(*arguments)
        assert code == 2 and said in error, error


@pytest.fixture
def server(spark: Any, fed: Any) -> Iterator[StateServer]:
    with StateServer(spark, str(fed.checkpoint), ("127.0.0.1", 0), "secret") as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def served(server: StateServer) -> Callable[..., Any]:
    def get(path: str, token: str | None = "secret", method: str = "GET") -> tuple[int, Any]:
        url = f"http://127.0.0.1:{server.server_address[1]}{path}"
        request = urllib.request.Request(url, method=method)
        if token is not None:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as e:
            body = e.read()
            return e.code, json.loads(body) if method == "GET" else body

    return get


def test_lookups_by_http(fed: Any, served: Callable[..., Any]) -> None:
    ann = urllib.parse.quote(ANN)
    status, answer = served(f"/state/last?key={ann}")
    assert (status, answer) == (
        200,
        {
            "operator": 0,
            "state": "last",
            "kind": "value",
            "key": ["ann", "2024-01-01"],
            "found": True,
            "value": {"n": 3, "at": "2024-01-02T03:00:00"},
        },
    )
    other = urllib.parse.quote(json.dumps(["bob ü/?", "2024-01-01"]))
    assert served(f"/state/by?key={other}&operator=0")[1]["value"] == [[4, "bob ü/?"]]
    assert served(f"/state/by?key={ann}&start=2&end=3")[1]["value"] == [[2, "ann"]]
    nobody = served("/state/last?key=" + urllib.parse.quote('["eve", "2024-01-01"]'))
    assert (nobody[0], nobody[1]["found"], nobody[1]["value"]) == (200, False, None)
    # What a later batch committed is seen; no other is.
    fed.feed([("ann", datetime.date(2024, 1, 1), 9)])
    fed.run(lambda df: keystate.keyed(df, "user", "day").process(Kept(), "x int"))
    assert served(f"/state/last?key={ann}")[1]["value"]["n"] == 9
    assert served("/inspect")[1]["batch"] == 1


def test_paths_that_are_none(served: Callable[..., Any], server: StateServer) -> None:
    for path in ("//[", "//[x]/inspect", "/\\"):
        with socket.create_connection(server.server_address[:2], timeout=60) as connection:
            connection.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
            said = connection.makefile("rb").read()
        assert said.startswith((b"HTTP/1.0 400 ", b"HTTP/1.0 401 ")), (path, said)
    assert served("/inspect")[0] == 200


@pytest.mark.turns
def test_so_many_requests_at_a_time(served: Callable[..., Any], server: StateServer) -> None:
    """Others wait; when those before them are gone they are answered."""
    silent = [
        socket.create_connection(server.server_address[:2], timeout=60)
        for _ in range(server.most_requests + 4)  # more would not fit into the queue of the socket
    ]

    def at_work() -> int:
        # Other tests of the process may have left idle threads of py4j.
        names = [thread.name for thread in threading.enumerate()]
        return sum("process_request_thread" in name for name in names)

    wait_until(lambda: at_work() >= server.most_requests, "all threads")
    time.sleep(0.5)
    assert at_work() == server.most_requests
    for connection in silent:
        connection.close()
    assert served("/inspect")[0] == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_warning_for_other_hosts(
    spark: Any, fed: Any, capsys: Any, monkeypatch: Any, host: str
) -> None:
    monkeypatch.setattr(command, "_reader", lambda given: nullcontext(spark))
    monkeypatch.setattr(StateServer, "serve_forever", lambda self: None)
    assert command.main(["serve", str(fed.checkpoint), "--host", host, "--port", "0"]) == 0
    said = capsys.readouterr().err
    assert ("is not the loopback interface" in said) == (host != "127.0.0.1")


def test_the_page_in_a_browser(fed: Any, served: Callable[..., Any], server: StateServer) -> None:
    """The token in the address is changed for a cookie; with it the page and its scripts come."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)

    def ask(path: str, cookie: str = "") -> tuple[http.client.HTTPResponse, bytes]:
        connection.request("GET", path, headers={"Cookie": cookie} if cookie else {})
        answer = connection.getresponse()
        return answer, answer.read()

    assert ask("/")[0].status == ask("/?token=secre")[0].status == 401
    assert ask("/plotly.min.js")[0].status == ask("/inspect?token=secret")[0].status == 401
    entered, _ = ask("/?token=secret")
    assert (entered.status, entered.headers["Location"]) == (303, "/")
    cookie, *attributes = entered.headers["Set-Cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Strict"} <= set(attributes) and "secret" not in cookie
    assert ask("/", cookie + "0")[0].status == 401
    page, content = ask("/", f"other=1; {cookie}")
    assert page.status == 200 and b"Largest keys of by" in content
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    for script in re.findall(rb'<script src="(.*?)">', content):
        answer, code = ask(f"/{script.decode()}", cookie)
        assert answer.status == 200 and code
        assert answer.headers["Content-Type"].startswith("text/javascript")
    # The history of a key, with a picture.
    assert b"<form action=/history>" in content
    shown, history = ask(f"/history?key={urllib.parse.quote(ANN)}", cookie)
    assert shown.status == 200 and history.count(b"<circle") == 2
    assert b"<title>batch 0, " in history and b"<td>last: " in history
    assert "form-action 'self'" in shown.headers["Content-Security-Policy"]
    assert ask("/history", cookie)[0].status == ask("/history?key=ann", cookie)[0].status == 400
    # A later batch makes a new page.
    fed.feed([("zoe", datetime.date(2024, 1, 1), 9)])
    fed.run(lambda df: keystate.keyed(df, "user", "day").process(Kept(), "x int"))
    assert b'data-batch="1"' in ask("/", cookie)[1]


def test_requests_that_are_refused(served: Callable[..., Any]) -> None:
    for token in (None, "", "secre", "secret2", "sécret"):
        assert served("/inspect", token and token.encode().decode("latin-1"))[0] == 401, token
    for path, status, code in (
        ("/none", 404, "Not Found"),
        ("/state/last", 400, "Bad Request"),
        ("/state/last?key=1&other=2", 400, "Bad Request"),
        ("/state/last?key=ann", 400, "KEYSTATE_STATE_TYPE"),
        ("/state/last?key=1&operator=x", 400, "Bad Request"),
        ("/state/none?key=1", 404, "KEYSTATE_NO_SUCH_STATE"),
        ("/state/../../etc/passwd?key=1", 404, "Not Found"),
    ):
        found = served(path)
        assert (found[0], found[1]["error"]) == (status, code), path
    assert served("/inspect", method="POST")[0] == 501


@pytest.mark.parametrize(
    ("ddl", "value"),
    [
        ("binary", b"\0\xff"),
        ("date", datetime.date(1969, 12, 31)),
        ("timestamp_ntz", datetime.datetime(2024, 1, 2, 3, 4, 5, 6)),
        ("decimal(10,2)", decimal.Decimal("-12.30")),
        ("double", float("-inf")),
        ("interval day to second", datetime.timedelta(days=-1, microseconds=5)),
        ("array<date>", [datetime.date(2024, 1, 1), None]),
        ("struct<a:int,b:string>", Row(a=1, b=None)),
        ("boolean", True),
        ("long", None),
    ],
)
def test_values_as_json(ddl: str, value: Any) -> None:
    text = json.dumps(to_json(value), allow_nan=False)
    assert from_json(json.loads(text), parse_ddl(ddl)) == value


def test_json_that_is_no_value() -> None:
    for text, ddl in (("x", "date"), ("€", "binary"), ([1], "struct<a:int,b:int>"), ("y", "float")):
        with pytest.raises(StateTypeError, match="is no "):
            from_json(text, parse_ddl(ddl))
