"""Tables that lie in files of the harness, in its folder or in its bundle."""

from __future__ import annotations

import pkgutil
from typing import Any


def read_table(package: str, name: str) -> dict[str, Any]:
    """Return the content of a TOML file of a package."""
    # Not all processes that import tables read one.
    import tomllib

    return tomllib.loads((pkgutil.get_data(package, name) or b"").decode())
