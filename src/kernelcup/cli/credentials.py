"""The tokens that this machine's user has for servers, and the credentials file of popcorn-cli."""

from __future__ import annotations

import io
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelcup.errors import ConfigError, SignInNeeded


@dataclass(frozen=True, kw_only=True, slots=True)
class Credentials:
    """Tokens by server."""

    path: Path
    tokens: Mapping[str, str]
    default: str | None
    """The server that was signed in to last."""
    given: Mapping[str, str]
    """The token of ``$KERNELCUP_TOKEN``, which goes before the stored ones and is never stored."""

    @classmethod
    def load(cls, environ: Mapping[str, str]) -> Credentials:
        """Read the file, which may be missing. Raise ``ConfigError`` if its content is not ours."""
        given = _given(environ)
        path = _config_dir(environ) / "kernelcup" / "credentials.json"
        try:
            body = json.loads(path.read_text(encoding="utf-8"))
            tokens = {str(server): str(entry["token"]) for server, entry in body["servers"].items()}
            default = body.get("default")
        except FileNotFoundError:
            return cls(path=path, tokens={}, default=None, given=given)
        except (ValueError, KeyError, TypeError, AttributeError):
            # The file's content is not quoted: it holds secrets.
            raise ConfigError(f"{path}: not a file of credentials; delete it and sign in again") from None
        return cls(path=path, tokens=tokens, default=default if default in tokens else None, given=given)

    def find(self, server: str | None) -> tuple[str, str]:
        """Return a server and its token; by default those of the last sign-in.

        Raises:
            SignInNeeded: No token is stored for the server.
        """
        wanted = server or self.default
        if wanted is None:
            raise SignInNeeded("Not signed in. Next: kernelcup login SERVER")
        if (token := self.token(wanted)) is None:
            raise SignInNeeded(f"Not signed in to {wanted}. Next: kernelcup login {wanted}")
        return wanted, token

    def token(self, server: str) -> str | None:
        """Return the token for a server, None without one."""
        return self.given.get(server) or self.tokens.get(server)

    def put(self, server: str, token: str) -> None:
        """Store a token, and make its server the default."""
        self._write({**self.tokens, server: token}, server)

    def remove(self, server: str) -> None:
        """Forget a server's token."""
        left = {each: token for each, token in self.tokens.items() if each != server}
        self._write(left, self.default if self.default in left else next(iter(left), None))

    def _write(self, tokens: Mapping[str, str], default: str | None) -> None:
        servers = {server: {"token": token} for server, token in tokens.items()}
        write_private(self.path, json.dumps({"default": default, "servers": servers}, indent=2) + "\n")


def write_private(path: Path, text: str) -> None:
    """Atomically write a file that only its owner can read."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # made with mode 0600
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_popcorn(token: str, environ: Mapping[str, str]) -> Path:
    """Store a token in the file of ``popcorn-cli``, keep its other keys, and return the path."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    path = Path(environ.get("HOME") or Path.home()) / ".popcorn.yaml"
    yaml = YAML()
    try:
        body: Any = yaml.load(path.read_text(encoding="utf-8")) or {}
    except FileNotFoundError:
        body = {}
    except (YAMLError, UnicodeDecodeError):
        body = None
    if not isinstance(body, dict):
        raise ConfigError(f"{path}: not a YAML file with keys; move it away and try again")
    body["cli_id"] = token
    buffer = io.StringIO()
    yaml.dump(body, buffer)
    write_private(path, buffer.getvalue())
    return path


def _config_dir(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME") or Path.home()) / ".config")


def _given(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the token of the environment by its server, which must be named: it goes to no other one."""
    token, server = environ.get("KERNELCUP_TOKEN", "").strip(), environ.get("KERNELCUP_SERVER")
    if not token:
        return {}
    if not server:
        raise ConfigError("KERNELCUP_TOKEN is set without the server it is for; set KERNELCUP_SERVER as well")
    from kernelcup.client.core import read_server

    return {read_server(server): token}
