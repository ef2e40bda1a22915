"""Where the ``kernelcup`` command starts: heavy imports wait until a command needs them."""

from __future__ import annotations

import dataclasses
import gc
import io
import json
import os
import signal
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any, NoReturn

import typer

from kernelcup.cli import exit_codes
from kernelcup.cli.completion import complete
from kernelcup.cli.failures import write_crash
from kernelcup.cli.show.output import plain
from kernelcup.errors import InvalidTask, KernelCupError

# The base class of typer's usage errors; some versions have no public name for it.
UsageError: Any = typer.BadParameter.mro()[2]


def run() -> NoReturn:
    """Run the command line of this process."""
    gc.set_threshold(100_000)  # with Python's own, collections take a tenth of a command's start
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, end)
    try:
        complete(commands)
        code = execute(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader closed the pipe, as with `| head`; the last flush must not complain either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = exit_codes.BROKEN_PIPE
    gc.freeze()  # or Python looks through all modules for cycles before it ends: a quarter of a command
    sys.exit(code)


def end(number: int, _frame: object) -> NoReturn:
    """End like an interrupted command, so that jobs are handed back and no process is left running."""
    sys.exit(exit_codes.SIGNAL + number)


def execute(args: Sequence[str]) -> int:
    """Run a command and return its exit code; every error becomes one message."""
    as_json = "--json" in args
    try:
        command = commands()
        with command.make_context("kernelcup", list(args)) as context:
            command.invoke(context)
        return exit_codes.OK
    except typer.Exit as end:
        return int(end.exit_code)
    except UsageError as error:
        return usage(error, as_json=as_json)
    except KernelCupError as error:
        tell(error, exit_codes.error_code(error), str(error), as_json=as_json)
        return exit_codes.of_error(error)
    except (KeyboardInterrupt, typer.Abort) as error:
        if sys.stderr.isatty():
            sys.stderr.write("\n")  # after the terminal's ^C, or the question
        tell(error, "interrupted", "interrupted", as_json=as_json)
        return exit_codes.INTERRUPTED
    except BrokenPipeError:
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename is not None else ""
        tell(error, "system_error", f"{where}{error.strerror or error}", as_json=as_json)
        return exit_codes.SYSTEM_ERROR
    # The one place that catches everything: any error that is not deliberate is our bug, and
    # the message says so without a traceback.
    except Exception as error:
        text = f"this is a bug in KernelCup, not yours; please report {write_crash(error)}"
        tell(error, "bug", text, as_json=as_json)
        return exit_codes.BUG


@cache
def commands() -> Any:
    """Return the tree of commands."""
    from kernelcup.cli.app import app

    return typer.main.get_command(app)


def usage(error: Any, *, as_json: bool) -> int:
    """Print what is wrong with a command line."""
    if as_json:
        tell(error, "usage", error.format_message(), as_json=True)
    else:
        error.show()
    return int(error.exit_code)


def tell(error: BaseException, code: str, message: str, *, as_json: bool) -> None:
    """Print an error: as one JSON object if ``--json`` is given, else as text.

    The error's notes hold the next step.
    """
    from kernelcup_harness.protocol.first_errors import advice

    notes: list[str] = getattr(error, "__notes__", []) or list(filter(None, [advice(message)]))
    if as_json:
        body: dict[str, object] = {"code": code, "message": message}
        if notes:
            body["next"] = notes
        if isinstance(error, InvalidTask):
            body["problems"] = [dataclasses.asdict(problem) for problem in error.problems]
        sys.stdout.write(json.dumps({"error": body}) + "\n")
        return
    lines = plain(message).split("\n")
    head = f"error ({code}):" if len(lines) > 1 else f"error ({code}): {lines.pop()}"
    sys.stderr.write("\n".join([head, *lines, *(f"Next: {plain(note)}" for note in notes)]) + "\n")
