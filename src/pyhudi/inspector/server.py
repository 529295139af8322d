"""The inspector on loopback: a server that answers whoever has the token, and changes nothing."""

from __future__ import annotations

import hmac
import logging
import re
from collections.abc import Callable
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qs, urlsplit

from pyhudi.errors import HudiError
from pyhudi.inspector.page import FIRST, POLICY, Asked

_HOST: Final = "127.0.0.1"
_COOKIE: Final = "pyhudi-inspector"
_log = logging.getLogger("pyhudi")
PageOf = Callable[[Asked], str]
"""From what is asked for to the document."""


class Inspector(ThreadingHTTPServer):
    """A server of pages on loopback. `url` has the token, and is all that one needs to look.

    `first`: what a page is asked for that names nothing else.
    """

    daemon_threads = True

    def __init__(self, page_of: PageOf, token: str, port: int = 0, *, first: Asked = FIRST) -> None:
        super().__init__((_HOST, port), _Handler)
        self.page_of = page_of
        self.first = first
        self.token = token

    @property
    def address(self) -> str:
        """The host and port that browsers name."""
        return f"{_HOST}:{self.server_address[1]}"

    @property
    def url(self) -> str:
        """Where the page is, with the token."""
        return f"http://{self.address}/?token={self.token}"


class _Handler(BaseHTTPRequestHandler):
    server: Inspector
    timeout = 30

    def do_GET(self) -> None:
        """Answer a request for the page; refuse others."""
        asked = parse_qs(urlsplit(self.path).query)
        # Another name for this address is that of a page elsewhere, whose script wants to read this one.
        if self.headers.get("Host") != self.server.address:
            self._answer(HTTPStatus.FORBIDDEN, "this is not the address of the inspector")
        elif urlsplit(self.path).path != "/":
            self._answer(HTTPStatus.NOT_FOUND, "there is one page: /")
        elif "token" in asked and self._is_token(asked["token"][0]):
            self.send_response(HTTPStatus.SEE_OTHER)
            self.send_header("Location", "/")
            self.send_header("Set-Cookie", f"{_COOKIE}={self.server.token}; HttpOnly; SameSite=Strict; Path=/")
            self.end_headers()
        elif not self._has_cookie():
            self._answer(HTTPStatus.FORBIDDEN, "open the URL that `pyhudi inspect` has printed: it has a token")
        else:
            first, writes = self.server.first, asked.get("writes", [""])[0]
            number = int(writes) if re.fullmatch("[0-9]{1,9}", writes) else first.writes
            self._page(Asked(asked.get("where", [first.where])[0], number))

    def _page(self, asked: Asked) -> None:
        try:
            self._answer(HTTPStatus.OK, self.server.page_of(asked), kind="text/html")
        except HudiError as error:
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, f"the table cannot be shown: {error}")

    def _has_cookie(self) -> bool:
        try:
            sent = SimpleCookie(self.headers.get("Cookie", ""))
        except CookieError:
            return False
        return _COOKIE in sent and self._is_token(sent[_COOKIE].value)

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), self.server.token.encode())

    def _answer(self, status: HTTPStatus, text: str, *, kind: str = "text/plain") -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(body)),
            "Content-Security-Policy": POLICY,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name that is overridden
        """Log without the token, which the first request has in its path."""
        _log.debug("inspector: %s %s", self.command, args[1] if len(args) > 1 else format)
