"""The sign-in providers and their configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

from kernelcup.errors import ConfigError


class SignInSection(BaseModel):
    """A section ``[signin.github]`` or ``[signin.discord]``."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    client_id: str = Field(min_length=1)
    authorize_url: str | None = None
    token_url: str | None = None
    api_url: str | None = None

    @field_validator("authorize_url", "token_url", "api_url")
    @classmethod
    def _is_safe(cls, url: str | None) -> str | None:
        if url is None:
            return None
        parts = urlsplit(url)
        loopback = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1")
        if not parts.hostname or not (parts.scheme == "https" or loopback):
            raise ValueError("expected an https:// address (http:// only on this machine)")
        return url.rstrip("/")


@dataclass(frozen=True, kw_only=True, slots=True)
class SignInProvider:
    """A provider with which people can sign in here."""

    name: str
    client_id: str
    client_secret: str = field(repr=False)
    authorize_url: str
    token_url: str
    user_url: str
    """The URL that returns the account that signed in."""
    login_key: str
    """The key of the account's name in that answer; ``id`` is its number."""
    display_key: str | None
    """The key of the name that others see there, None if it is not theirs to take along."""
    scope: str | None

    @property
    def title(self) -> str:
        """The provider's name for people."""
        return title_of(self.name)


def title_of(provider: str) -> str:
    """Return a sign-in provider's name for people."""
    return {"github": "GitHub", "discord": "Discord"}.get(provider, provider)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Known:
    authorize_url: str
    token_url: str
    api_url: str
    user_path: str
    login_key: str
    display_key: str | None
    scope: str | None


_KNOWN = {
    "github": _Known(
        authorize_url="https://github.com/login/oauth/authorize",
        token_url="https://github.com/login/oauth/access_token",
        api_url="https://api.github.com",
        user_path="/user",
        login_key="login",
        display_key=None,
        scope=None,
    ),
    "discord": _Known(
        authorize_url="https://discord.com/oauth2/authorize",
        token_url="https://discord.com/api/oauth2/token",
        api_url="https://discord.com/api/v10",
        user_path="/users/@me",
        login_key="username",
        display_key="global_name",
        scope="identify",
    ),
}

SECRET_VARIABLES = {name: f"KERNELCUP_{name.upper()}_SECRET" for name in _KNOWN}


def read_provider(name: str, section: SignInSection, environ: Mapping[str, str]) -> SignInProvider:
    """Return a provider with its secret from the environment. Raise ``ConfigError`` without one."""
    known = _KNOWN[name]
    secret = environ.get(SECRET_VARIABLES[name])
    if not secret:
        raise ConfigError(f"signin.{name}: its secret is expected in {SECRET_VARIABLES[name]}")
    return SignInProvider(
        name=name,
        client_id=section.client_id,
        client_secret=secret,
        authorize_url=section.authorize_url or known.authorize_url,
        token_url=section.token_url or known.token_url,
        user_url=(section.api_url or known.api_url) + known.user_path,
        login_key=known.login_key,
        display_key=known.display_key,
        scope=known.scope,
    )
