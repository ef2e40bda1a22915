"""Sign-in at a provider with Authlib, with PKCE and a state that only this browser can return."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable
from functools import cache
from typing import Any

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response

from kernelcup.config.sign_in import SignInProvider
from kernelcup.errors import SignInFailed

TIMEOUT_S = 10


async def begin(request: Request, provider: SignInProvider, redirect_uri: str) -> Response:
    """Send a browser to a provider. An earlier attempt of the same browser is forgotten."""
    for key in [key for key in request.session if key.startswith("_state_")]:
        del request.session[key]
    answer: Response = await (await _client(provider)).authorize_redirect(request, redirect_uri)
    return answer


async def finish(request: Request, provider: SignInProvider) -> dict[str, Any]:
    """Return the subject, the login and, of Discord, the display name for which a provider vouches.

    The provider's answer is not repeated, nor kept as a cause: it may contain codes and secrets.

    Raises:
        SignInFailed: The sign-in was not begun in this browser, was refused there, or the provider fails.
    """
    client = await _client(provider)
    return await _identity_for(provider, client, client.authorize_access_token(request))


async def redeem(provider: SignInProvider, code: str, redirect_uri: str) -> dict[str, Any]:
    """Return subject, login and display name of a sign-in that another program began, without a state of ours.

    The caller has to ask the person in the browser, whom the code alone does not bind.

    Raises:
        SignInFailed: The code is unknown, used or for another address, or the provider fails.
    """
    client = await _client(provider)
    return await _identity_for(
        provider, client, client.fetch_access_token(code=code, redirect_uri=redirect_uri)
    )


async def _identity_for(provider: SignInProvider, client: Any, exchange: Awaitable[Any]) -> dict[str, Any]:
    import httpx
    from authlib.integrations.base_client import OAuthError

    try:
        token = await exchange
    except OAuthError as error:
        raise SignInFailed(_reason(provider, str(error.error))) from None
    except (httpx.HTTPError, ValueError):
        raise SignInFailed(f"{provider.title} does not answer; try again later.") from None
    try:
        answer = await client.get(provider.user_url, token=token)
        answer.raise_for_status()
        return _identity(provider, answer.json())
    except (OAuthError, httpx.HTTPError, ValueError):
        raise SignInFailed(f"{provider.title} does not confirm who you are; try again later.") from None


async def _client(provider: SignInProvider) -> Any:
    oauth = await to_thread.run_sync(_registry)
    options: dict[str, Any] = {
        "code_challenge_method": "S256",
        "token_endpoint_auth_method": "client_secret_post",
        "timeout": TIMEOUT_S,
    }
    if provider.scope is not None:
        options["scope"] = provider.scope
    return oauth().register(
        provider.name,
        client_id=provider.client_id,
        client_secret=provider.client_secret,
        authorize_url=provider.authorize_url,
        access_token_url=provider.token_url,
        client_kwargs=options,
    )


@cache
def _registry() -> Any:
    """Return Authlib's class, which takes half a second to import: when the first person signs in so."""
    from authlib.deprecate import AuthlibDeprecationWarning

    with warnings.catch_warnings():
        # It prefers httpx2, and warns about it.
        warnings.simplefilter("ignore", AuthlibDeprecationWarning)
        from authlib.integrations.starlette_client import OAuth
    return OAuth


def _reason(provider: SignInProvider, word: str) -> str:
    if word == "mismatching_state":
        return "This sign-in was started in another browser, or too long ago; begin again."
    if word == "access_denied":
        return f"{provider.title} was not allowed to confirm who you are."
    return f"{provider.title} refused the sign-in; begin again."


def _identity(provider: SignInProvider, body: object) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise ValueError("no object")
    subject, login = body.get("id"), body.get(provider.login_key)
    if not isinstance(subject, (int, str)) or isinstance(subject, bool) or not isinstance(login, str):
        raise ValueError("no identity")
    if not str(subject) or not login:
        raise ValueError("no identity")
    return {"subject": str(subject), "login": login, "display": str(body.get("global_name") or "")}
