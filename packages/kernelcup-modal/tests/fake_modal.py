"""Modal without an account: what the launcher uses of its client, with the rules of the service.

A call either waits for a test to say what its container does, or is carried out in a thread of this process.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

LONGEST_S = 24 * 3600
OPTIONS = {
    "name", "image", "gpu", "timeout", "startup_timeout", "max_containers", "single_use_containers",
    "block_network", "restrict_modal_access", "_experimental_restrict_output",
}  # fmt: skip


class Error(Exception):
    """As ``modal.exception.Error``."""


class ModalTimeoutError(Error):
    """As ``modal.exception.TimeoutError``, which is not the one that ``get`` raises."""


class FunctionTimeoutError(ModalTimeoutError):
    """The call took longer than its function may."""


class OutputExpiredError(ModalTimeoutError):
    """The result is older than seven days."""


class NotFoundError(Error):
    """There is no such thing."""


class RemoteError(Error):
    """The function raised."""


class ExecutionError(Error):
    """What the function raised cannot be read."""


class DeserializationError(Error):
    """What the container sent is not read."""


class InternalFailure(Error):
    """The container was lost."""


class InvalidError(Error):
    """The client was used in a wrong way."""


class AuthError(Error):
    """The client has no account."""


class InputCancellation(BaseException):
    """The call was cancelled."""


KNOWN = (
    Error, FunctionTimeoutError, OutputExpiredError, NotFoundError, RemoteError, ExecutionError,
    AuthError, DeserializationError, InternalFailure, InvalidError, InputCancellation,
)  # fmt: skip
EXCEPTIONS = SimpleNamespace(**{each.__name__: each for each in KNOWN})


@dataclass(kw_only=True)
class Call:
    """A call of a function."""

    id: str
    function: str
    arguments: tuple[str, ...]
    began_s: float
    timeout_s: float
    result: str | BaseException | None = None

    def end(self, result: str | BaseException) -> None:
        """End, once."""
        if self.result is None:
            self.result = result


class FakeModal:
    """The module, with one workspace behind it. Times are seconds of ``now_s``."""

    def __init__(self, *, carries_out: bool = False) -> None:
        self.exception = EXCEPTIONS
        self.token = "ak-1"
        self.deployed: dict[tuple[str, str], tuple[Callable[..., Any], dict[str, Any]]] = {}
        self.calls: dict[str, Call] = {}
        self.now_s = 0.0
        self.carries_out = carries_out
        self.down = False
        self.asked = 0
        self._names = itertools.count(1)
        self._threads: list[threading.Thread] = []
        self.Image = SimpleNamespace(from_registry=self._image)
        self.Function = SimpleNamespace(from_name=self._function)
        self.FunctionCall = SimpleNamespace(from_id=self._call)
        self.App = lambda name: App(self, name)

    def join(self) -> None:
        """Wait for the calls that are carried out."""
        for thread in self._threads:
            thread.join()

    def end_overdue(self) -> None:
        """End the calls whose function may not take longer."""
        for call in self.calls.values():
            if call.result is None and self.now_s - call.began_s > call.timeout_s:
                call.end(FunctionTimeoutError("Task's current input hit its timeout"))

    def _image(self, tag: str, *, add_python: str) -> Image:
        if ":" not in tag or tag.endswith(":latest"):
            raise InvalidError(f"{tag} is not pinned")
        return Image([f"{tag} python {add_python}"])

    def _function(self, app: str, name: str) -> Any:
        def spawn(*arguments: Any) -> Any:
            self._check_up()
            if (app, name) not in self.deployed:  # the real one looks it up when it is used
                raise NotFoundError(f"Function {name!r} not found in app {app!r}")
            if not all(isinstance(each, str) for each in arguments):
                raise InvalidError("this workspace takes text only")
            body, options = self.deployed[app, name]
            call = Call(
                id=f"fc-{next(self._names)}", function=name, arguments=arguments, began_s=self.now_s,
                timeout_s=options["timeout"],
            )  # fmt: skip
            self.calls[call.id] = call
            if self.carries_out:
                thread = threading.Thread(target=lambda: call.end(body(*arguments)))
                self._threads.append(thread)
                thread.start()
            return SimpleNamespace(object_id=call.id)

        return SimpleNamespace(spawn=spawn)

    def _call(self, name: str) -> Any:
        def found() -> Call:
            self._check_up()
            self.end_overdue()
            if name not in self.calls:
                raise NotFoundError(f"no function call {name!r}")
            return self.calls[name]

        def get(timeout: float | None = None) -> Any:
            self.asked += 1
            result = found().result
            if result is None:
                if timeout is None:
                    raise AssertionError("nobody waits for ever")
                raise TimeoutError
            if isinstance(result, BaseException):
                raise result
            return result

        def cancel(*, terminate_containers: bool = False) -> None:
            if not terminate_containers:
                raise AssertionError("the container would go on")
            found().end(InputCancellation("Input was cancelled by user"))

        return SimpleNamespace(get=get, cancel=cancel)

    def _check_up(self) -> None:
        if self.down:
            raise Error("could not reach api.modal.com")


@dataclass
class Image:
    """An image, as the layers that make it."""

    layers: list[str]

    def apt_install(self, *names: str) -> Image:
        """Add packages of the distribution."""
        return Image([*self.layers, *names])

    def pip_install(self, *names: str) -> Image:
        """Add packages, each of one version."""
        if loose := [name for name in names if "==" not in name]:
            raise InvalidError(f"{loose[0]} is not pinned")
        return Image([*self.layers, *names])

    def add_local_python_source(self, *names: str) -> Image:
        """Add packages of this machine."""
        return Image([*self.layers, *names])


class App:
    """An app before it is deployed."""

    def __init__(self, modal: FakeModal, name: str) -> None:
        self._modal, self._name = modal, name
        self.functions: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {}

    def function(self, **options: Any) -> Callable[[Callable[..., Any]], None]:
        """Add a function. Raise ``InvalidError`` for what the service or this project does not allow."""
        if unknown := options.keys() - OPTIONS:
            raise InvalidError(f"unknown option {min(unknown)}")
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,63}", options["name"]):
            raise InvalidError(f"invalid name {options['name']!r}")
        if not 1 <= options["timeout"] <= LONGEST_S:
            raise InvalidError("timeout is out of range")
        for rule in ("single_use_containers", "block_network", "restrict_modal_access"):
            if options.get(rule) is not True:
                raise InvalidError(f"{rule} is off")

        def add(body: Callable[..., Any]) -> None:
            self.functions[options["name"]] = (body, options)

        return add

    def deploy(self) -> None:
        """Deploy it, in place of the last one. Raise ``AuthError`` without a token."""
        if not self._modal.token:
            raise AuthError("Token missing. Could not authenticate client.")
        self._modal.deployed |= {(self._name, name): each for name, each in self.functions.items()}
