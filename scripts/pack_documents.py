"""A hook of the build: a wheel has the documentation in it that `make docs` has built before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PackDocuments(BuildHookInterface[Any]):
    """Put ``site/`` into wheels, where ``kernelcup serve`` finds it. Installs from a checkout read it there."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the folder to the files of a wheel, or say that it is missing."""
        site = Path(self.root) / "site"
        if version == "editable":
            return
        if (site / "index.html").is_file():
            build_data["force_include"][str(site)] = "kernelcup/http/pages/documents"
        else:
            self.app.display_warning("This wheel has no documentation: `make docs` builds it.")
