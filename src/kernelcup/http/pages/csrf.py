"""Forms of other sites change nothing here: each of ours carries a token of the browser's session.

Browsers say where a request comes from, and that is checked first; the token is for those that do not. It
stays as long as the session does, so that pages keep their `ETag`. What a compressed page tells of it is of
no use to another site, whose requests the first check refuses.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

from fastapi import Request
from markupsafe import Markup

from kernelcup.errors import Forbidden
from kernelcup.http import auth
from kernelcup.http.state import Platform

FIELD = "csrf_token"
VISIT = "visit"
LARGEST_TEXT_BYTES = 4 << 20
"""Of one field: browsers end the lines of a text area with two bytes, and what is too large is told beside
it.
"""


def begin_visit(request: Request) -> None:
    """Let the forms of a page carry a token without a signed-in user: a cookie of its own stands for
    that.
    """
    if not request.cookies.get(auth.COOKIE):
        request.session.setdefault(VISIT, secrets.token_urlsafe(16))


def token(request: Request) -> str:
    """Return the token of the browser's session, else of its visit, empty without either."""
    session = request.cookies.get(auth.COOKIE, "")
    kind, secret = ("csrf", session) if session else (VISIT, str(request.session.get(VISIT, "")))
    if not secret:
        return ""
    platform: Platform = request.app.state.platform
    key = hashlib.sha256(f"{kind}:{platform.secret}".encode()).digest()
    return hmac.new(key, secret.encode(), hashlib.sha256).hexdigest()[:32]


def field(request: Request) -> Markup:
    """Return the hidden input that each form which is posted carries."""
    return Markup('<input type="hidden" name="{}" value="{}">').format(FIELD, token(request))


async def check(request: Request) -> None:
    """Raise ``Forbidden`` unless a form of ours was sent in this session."""
    auth.check_same_origin(request)
    given = (await request.form(max_part_size=LARGEST_TEXT_BYTES)).get(FIELD)
    wanted = token(request)
    if not (wanted and isinstance(given, str) and hmac.compare_digest(given.encode(), wanted.encode())):
        raise Forbidden("This form belongs to an earlier session. Reload its page, then send it again.")
