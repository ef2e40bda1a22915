"""Routes for the agents of machines, each of which has a token of its own."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Annotated, Any, TypeVar

from anyio import to_thread
from fastapi import APIRouter, Body, Depends, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, BaseModel, Field, ValidationError
from starlette.responses import FileResponse

from kernelcup.app.machines import agents
from kernelcup.app.machines.agents import Errand, Machine
from kernelcup.errors import InvalidValue, NotFound, SignInNeeded
from kernelcup.http.api.forms import Form
from kernelcup.http.auth import bearer
from kernelcup.http.dependencies import Db, Now, PlatformDep
from kernelcup.http.events.asking import LONGEST_WAIT_S
from kernelcup.http.middleware import API, allow_body
from kernelcup.http.route import LaterRoute, Sent
from kernelcup.http.state import Platform
from kernelcup.launchers.base import Event
from kernelcup.launchers.bundle import kept_bundle
from kernelcup.launchers.outcomes import LARGEST_REPORT_BYTES, check_events, read
from kernelcup_harness.protocol import MOST_EVENTS, ProtocolError, from_json, to_json
from kernelcup_harness.protocol.calibration import DeviceCalibration

REPORT_S = agents.UPLOAD_WITHIN.total_seconds()
"""How long a body may take: machines behind slow lines send large reports."""
LARGEST_NEWS_BYTES = 16 << 20
"""Of what is no report."""

F = TypeVar("F", bound=BaseModel)
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class AgentRoute(LaterRoute):
    """A route that knows its machine before it reads a body."""

    def get_route_handler(self) -> Handler:
        """Return the handler, preceded by authentication."""
        handler = super().get_route_handler()

        async def answer(request: Request) -> Response:
            platform: Platform = request.app.state.platform
            found = await run_in_threadpool(agents.authenticate, platform.db, bearer(request))
            request.state.machine = found
            most = LARGEST_REPORT_BYTES if "call" in request.path_params else LARGEST_NEWS_BYTES
            allow_body(request.scope, most_bytes=most, whole_s=REPORT_S)
            return await handler(Sent(request.scope, request.receive))

        return answer


# Not in the schema: it is between a service and agents of its own version, and no token of a person opens it.
router = APIRouter(prefix=f"{API}/agent", route_class=AgentRoute, include_in_schema=False)


async def get_machine(request: Request) -> Machine:
    """Return the machine whose agent asks."""
    machine: Machine = request.state.machine
    return machine


MachineDep = Annotated[Machine, Depends(get_machine)]
# Signed addresses need no token: a bucket that is in the server's place must not see one.
files_router = APIRouter(prefix=f"{API}/agent-files", route_class=LaterRoute, include_in_schema=False)
Hash = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Name = Annotated[str, Field(max_length=100)]
Session = Annotated[str, Field(min_length=8, max_length=100)]
Events = Annotated[list[Event], Field(max_length=MOST_EVENTS), AfterValidator(check_events)]
"""A malformed one is a problem of the request; see ``kernelcup_harness.protocol.JobEvent``."""


def check_outcome(body: dict[str, Any]) -> dict[str, Any]:
    """Return an outcome that can be read. Raise ``ProtocolError`` for anything else."""
    read(body)
    return body


class FactsIn(Form):
    """A machine's hardware. Its class is made of it, which an index holds."""

    gpus: list[Annotated[str, Field(max_length=64)]] = Field(default_factory=list, max_length=32)
    driver: str = Field(default="", max_length=64)
    cores: int | None = Field(default=None, ge=0, le=1 << 20)
    memory_gib: int | None = Field(default=None, ge=0, le=1 << 20)


class HelloIn(Form):
    """An agent that has started."""

    session: Session
    follows: Session | None = Field(default=None, description="The session of an agent that was killed.")
    slots: dict[Name, Annotated[int, Field(ge=0, le=1024)]] = Field(max_length=64)
    facts: FactsIn = Field(default_factory=FactsIn)


class ByeIn(Form):
    """An agent that ends."""

    session: Session


class AskIn(Form):
    """An agent that wants something to do."""

    session: Session
    running: list[Name] = Field(default_factory=list, max_length=4096)
    wait_s: float = Field(default=0.0, ge=0, le=LONGEST_WAIT_S, description="How long the answer may wait.")


class NewsIn(Form):
    """What an agent has to say."""

    session: Session
    events: dict[Name, Events] = Field(default_factory=dict, max_length=4096)
    trouble: str = Field(default="", max_length=2000, description="Why it takes no jobs; empty if it does.")


PlaceIn = tuple[Name, Name]
"""A device and its GPU, empty if it has none."""


class CalibrationsIn(Form):
    """An agent that has calibrated a device, or wants to know what is known of its devices."""

    session: Session
    places: list[PlaceIn] = Field(max_length=1024)
    place: PlaceIn | None = None
    found: dict[str, Any] | None = Field(default=None, description="The calibration of that place.")


class ReportIn(Form):
    """The outcome of a call."""

    outcome: Annotated[dict[str, Any], AfterValidator(check_outcome)]
    events: Events = Field(default_factory=list, description="Its last ones.")


def beside(form: type[F]) -> Callable[..., Awaitable[F]]:
    """Return what reads a form beside the loop: one as large as a machine may send takes many seconds."""

    async def read(request: Request, body: Annotated[dict[str, Any], Body()]) -> F:
        try:
            limiter = request.app.state.platform.room.parsers
            return await to_thread.run_sync(form.model_validate, body, limiter=limiter)
        except ValidationError as error:
            places = [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
            raise RequestValidationError(places) from error

    return read


class UploadsIn(Form):
    """Files of a report that an agent wants to send beside it."""

    files: dict[Hash, Annotated[int, Field(ge=1)]] = Field(
        max_length=100, description="The sizes of gzip files in bytes, by the SHA-256 of their content."
    )


@router.post("/hello")
def hello(body: HelloIn, machine: MachineDep, platform: PlatformDep, now: Now) -> dict[str, str]:
    """Begin a session, and learn the machine of the token; calls of an earlier session of this machine are lost."""
    facts = body.facts.model_dump(exclude_unset=True)
    agents.check_offer(body.slots, platform.config.devices)
    offers: dict[str, Any] = {"slots": body.slots, "facts": facts}
    agents.connect(platform.db, machine.name, agent=body.session, follows=body.follows, **offers, now=now)
    return {"machine": machine.name}


@router.post("/bye")
def bye(body: ByeIn, machine: MachineDep, db: Db, now: Now) -> dict[str, str]:
    """End a session."""
    agents.disconnect(db, machine.name, agent=body.session, now=now)
    return {"machine": machine.name}


@router.post("/ask")
async def ask(body: AskIn, machine: MachineDep, platform: PlatformDep) -> Errand:
    """Receive jobs and cancellations, as soon as there are some."""
    look = partial(agents.ask, platform.db, machine, agent=body.session, running=body.running)
    return await platform.asking.errand(
        look, machine=machine.name, agent=body.session, wait_s=body.wait_s, now=platform.clock()
    )


@router.post("/news")
def news(
    body: Annotated[NewsIn, Depends(beside(NewsIn))], machine: MachineDep, db: Db, now: Now
) -> dict[str, str]:
    """Send events of jobs, and why the machine takes none."""
    agents.take_news(db, machine, agent=body.session, events=body.events, trouble=body.trouble, now=now)
    return {"machine": machine.name}


@router.post("/calibrations")
def calibrations(body: CalibrationsIn, machine: MachineDep, db: Db, now: Now) -> dict[str, Any]:
    """Send the calibration of a device, and receive the figures that its jobs are given."""
    found = None
    if body.place is not None:
        try:
            found = body.place, from_json(DeviceCalibration, body.found)
        except ProtocolError as error:
            raise InvalidValue(f"The calibration cannot be read: {error}") from error
    known, unfit = agents.calibrated(
        db, machine, agent=body.session, places=body.places, found=found, now=now
    )
    out = [
        {"place": place, "age_s": each.age.total_seconds(), "facts": to_json(each.facts)}
        for place, each in known.items()
    ]
    return {"known": out, "unfit": unfit}


@router.post("/calls/{call}/uploads")
def uploads(call: str, body: UploadsIn, machine: MachineDep, platform: PlatformDep) -> dict[str, Any]:
    """Receive signed addresses for files of a report, some of this server, so that they go past the database."""
    found = agents.upload_urls(platform.db, machine, call, body.files)
    until = round(platform.clock().timestamp() + agents.UPLOAD_WITHIN.total_seconds())
    return {
        "urls": {
            each: url or _own_url(platform.secret, call, each, most=body.files[each], until=until)
            for each, url in found.items()
        }
    }


def _own_url(secret: str, call: str, digest: str, *, most: int, until: int) -> str:
    signature = _signature(secret, call, digest, most, until)
    return f"{API}/agent-files/{call}/{digest}?most={most}&until={until}&signature={signature}"


def _signature(secret: str, *parts: object) -> str:
    text = "/".join(["agent-files", *map(str, parts)])
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()


@files_router.put("/{call}/{digest}", status_code=204)
async def upload(
    call: str, digest: str, most: int, until: int, signature: str, request: Request, platform: PlatformDep
) -> None:
    """Take a file of a report. Its address is signed, and limits its size and its time."""
    expected = _signature(platform.secret, call, digest, most, until)
    if not hmac.compare_digest(expected.encode(), signature.encode()) or until < platform.clock().timestamp():
        raise SignInNeeded("This address is not valid, or not any more.")
    allow_body(request.scope, most_bytes=most, whole_s=REPORT_S)
    packed = await request.body()
    await run_in_threadpool(platform.db.files.take_in, call, digest, packed)


@router.post("/calls/{call}/outcome")
def report(
    call: str, body: Annotated[ReportIn, Depends(beside(ReportIn))], machine: MachineDep, db: Db
) -> dict[str, bool]:
    """Send the outcome of a call; learn whether it was taken: a late or second one is not."""
    return {"taken": agents.take_report(db, machine, call, body.outcome, body.events)}


@router.get("/harness/{harness_hash}", response_class=FileResponse)
def harness(harness_hash: str, machine: MachineDep, platform: PlatformDep) -> FileResponse:  # noqa: ARG001
    """Download a harness as a zip, by its hash."""
    folder = platform.config.data_dir / "harness"
    kept_bundle(folder)
    names = {path.name: path for path in folder.glob("*.zip")}
    if f"{harness_hash}.zip" not in names:
        raise NotFound("This server has no harness with this hash.")
    return FileResponse(names[f"{harness_hash}.zip"], media_type="application/zip")
