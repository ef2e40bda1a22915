"""The command line."""

from __future__ import annotations

import sys
from typing import NoReturn

from kernelcup import __version__


def main() -> NoReturn:
    """Run the command line of this process."""
    if sys.argv[1:] == ["--version"]:
        # Scripts ask for it often, and the import of typer takes four times as long as the rest.
        sys.stdout.write(f"kernelcup {__version__}\n")
        sys.exit()
    from kernelcup.cli.entry import run

    run()
