"""Where the ``kernelcup`` command starts: heavy imports wait until a command needs them."""

from __future__ import annotations

import json
import sys
import tempfile
import traceback
from typing import NoReturn

from kernelcup.cli import exits
from kernelcup.errors import KernelCupError


def main() -> NoReturn:
    """Run the command line; every deliberate error becomes one message and an exit code."""
    from kernelcup.cli.app import app

    try:
        app(prog_name="kernelcup")
    except KernelCupError as error:
        tell(exits.error_code(error), str(error))
        sys.exit(exits.of_error(error))
    except KeyboardInterrupt:
        tell("interrupted", "interrupted")
        sys.exit(exits.INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has enough of it, as with `| head`.
        sys.stderr.close()
        sys.exit(exits.OK)
    # The one place where everything is caught: what is not a deliberate error is our bug, and
    # nobody should have to read its traceback to know that.
    except Exception:
        tell("bug", f"this is a bug in KernelCup, not yours; please report {write_crash()}")
        sys.exit(exits.BUG)
    sys.exit(exits.OK)


def tell(code: str, message: str) -> None:
    """Print an error: as one JSON object where ``--json`` was asked for, else as text."""
    if "--json" in sys.argv:
        sys.stdout.write(json.dumps({"error": {"code": code, "message": message}}) + "\n")
        return
    lines = message.splitlines() or [""]
    head = f"error ({code})" if len(lines) > 1 else f"error ({code}): {lines.pop(0)}"
    sys.stderr.write("\n".join([head, *lines]) + "\n")


def write_crash() -> str:
    """Write the traceback to a file and return its name."""
    with tempfile.NamedTemporaryFile("w", prefix="kernelcup-crash-", suffix=".txt", delete=False) as file:
        file.write(f"{' '.join(sys.argv)}\n\n{traceback.format_exc()}")
    return file.name
