"""A sign-in provider on this machine: it knows codes, secrets and PKCE as the real ones do."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

CLIENT_SECRET = "canary-client-secret"


@dataclass
class FakeProvider:
    """What the provider knows."""

    url: str = ""
    account: dict[str, Any] = field(default_factory=lambda: {"id": 7, "login": "ada", "username": "ada"})
    codes: dict[str, str] = field(default_factory=dict)
    """Code to the PKCE challenge of the browser that got it, or to the address that it was made for."""
    token_answer: dict[str, Any] | None = None

    def allow(self, location: str) -> dict[str, str]:
        """Do what a person does who allows the sign-in: return what the browser brings back."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}
        assert query["code_challenge_method"] == "S256"
        code = f"canary-code-{len(self.codes)}"
        self.codes[code] = query["code_challenge"]
        return {"code": code, "state": query["state"]}

    def allow_without_challenge(self, redirect_uri: str) -> str:
        """Allow the sign-in of a program without PKCE, whose redirect is ``redirect_uri``; return the code."""
        code = f"canary-code-{len(self.codes)}"
        self.codes[code] = redirect_uri
        return code

    def redeem(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        """Answer at the token endpoint."""
        if self.token_answer is not None:
            return 400, self.token_answer
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        known = self.codes.pop(form.get("code", ""), None)
        if "code_verifier" not in form:
            challenge = form.get("redirect_uri", "")
        if form.get("client_secret") != CLIENT_SECRET or known != challenge:
            return 400, {"error": "invalid_grant", "error_description": CLIENT_SECRET}
        return 200, {"access_token": "canary-access-token", "token_type": "bearer"}


@contextmanager
def fake_provider() -> Iterator[FakeProvider]:
    """Serve a provider."""
    provider = FakeProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._send(*provider.redeem({name: values[0] for name, values in parse_qs(body).items()}))

        def do_GET(self) -> None:
            allowed = self.headers.get("Authorization") == "Bearer canary-access-token"
            self._send(200 if allowed else 401, provider.account if allowed else {})

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name is the library's)
            pass

        def _send(self, status: int, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield provider
    server.shutdown()
    server.server_close()
    thread.join()
