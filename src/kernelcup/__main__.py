"""``python -m kernelcup``: the command line."""

from __future__ import annotations

from kernelcup.cli import main

if __name__ == "__main__":
    main()
