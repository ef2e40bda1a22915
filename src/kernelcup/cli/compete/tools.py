"""``kernelcup mcp``: a participant's operations as tools of the Model Context Protocol, for coding agents."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from kernelcup.clean_text import listed
from kernelcup.cli.backend.base import Ask, Backend
from kernelcup.cli.backend.choosing import with_backend
from kernelcup.cli.failures import write_crash
from kernelcup.errors import ConfigError, KernelCupError, NotFound

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from pydantic import BaseModel

    from kernelcup.app.operation import Operation

EXTRA = "tools for coding agents need the SDK of MCP: pip install '.[mcp]' in a copy of the project"
ABOUT = """\
Compete for the fastest GPU kernel. `leaderboards` lists them, `task` has all about one: statement, reference, \
templates, limits, what is forbidden. Write the file, `check` it, `submit` it with the mode test, `wait`, read the \
`report`; then `submit` it with the mode leaderboard for a place. For what limits a kernel submit it with the mode \
profile, and read the section profile of the report."""
MOST = 20_000
"""Characters of an answer: an agent's context is small."""
CUTS = ((6000, 100), (2000, 40), (500, 20), (120, 5))
"""The longest text and list in an answer; the first pair that makes it short enough is taken."""
LONGEST_WAIT_S, PAUSE_S = 55, 1.0
"""Clients give up on a tool after a minute."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """A tool: what it is for, its arguments, and what it does with them."""

    text: str
    form: type[BaseModel]
    call: Callable[[Any], Any]


@with_backend
def mcp(backend: Backend) -> None:
    """Offer a participant's operations to a coding agent, as MCP tools over standard input and output."""
    try:
        import anyio
        from mcp.server.stdio import stdio_server
    except ImportError as error:
        raise ConfigError(f"{EXTRA} ({error})") from error
    server = server_of(backend)

    async def serve() -> None:
        async with stdio_server() as (requests, answers):
            await server.run(requests, answers, server.create_initialization_options())

    anyio.run(serve)


def server_of(backend: Backend) -> Server[Any]:
    """Return a server with all tools."""
    from anyio import to_thread
    from mcp import types
    from mcp.server.lowlevel import Server

    tools = dict(tools_of(backend))

    async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
        schemas = {name: each.form.model_json_schema() for name, each in tools.items()}
        return types.ListToolsResult(
            tools=[
                types.Tool(name=name, description=tools[name].text, input_schema=schema)
                for name, schema in schemas.items()
            ]
        )

    async def call_tool(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        text, is_error = await to_thread.run_sync(run, tools, params.name, params.arguments or {})
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)

    return Server("kernelcup", instructions=ABOUT, on_list_tools=list_tools, on_call_tool=call_tool)


def tools_of(backend: Backend) -> Iterator[tuple[str, Tool]]:
    """Yield the operations that are tools, and what a submission needs beside them, by name."""
    from pydantic import BaseModel, Field, create_model

    from kernelcup.app.operations import every
    from kernelcup.http.api.forms import SubmissionIn
    from kernelcup.http.api.operations import body_of

    for operation in (each for each in every() if each.tool):
        # An argument has one name in all tools, wherever it stands in an address.
        own = dataclasses.replace(
            operation,
            parameters=tuple(dataclasses.replace(each, in_path="") for each in operation.parameters),
        )
        form = body_of(f"{own.tool.title()}In", own.parameters)
        yield own.tool, Tool(text=own.summary, form=form, call=partial(perform, backend, own))
    key = Field(min_length=1, max_length=128, description="Yours: with the same key it is submitted once.")
    number, cursor = Field(ge=1, description="Number of the submission."), Field(default=0, ge=0)
    seconds = Field(default=30, ge=0, le=LONGEST_WAIT_S)
    yield (
        "submit",
        Tool(
            text="Submit a file, or several, in the mode test, benchmark, profile or leaderboard (ranked).",
            form=create_model("SubmitIn", __base__=SubmissionIn, key=(str, key)),
            call=partial(submit, backend),
        ),
    )
    fields: dict[str, Any] = {
        "submission_id": (int, number),
        "after": (int, cursor),
        "seconds": (int, seconds),
    }
    yield (
        "wait",
        Tool(
            text="Wait until a submission has ended, or the seconds are over. `next` is `after` of the next call.",
            form=create_model("WaitIn", __base__=BaseModel, **fields),
            call=partial(wait, backend),
        ),
    )


def run(tools: Mapping[str, Tool], name: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
    """Return a tool's answer as JSON of bounded length, and whether it is an error."""
    from pydantic import ValidationError
    from pydantic_core import to_jsonable_python

    from kernelcup.http.errors import body_of, next_step

    try:
        if name not in tools:
            raise NotFound(f"There is no tool {name!r}, only {', '.join(tools)}.")
        answer = tools[name].call(tools[name].form.model_validate(arguments))
        return bounded(to_jsonable_python(answer, exclude_none=True)), False
    except KernelCupError as error:
        told = body_of(error)
    except ValidationError as error:
        places = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
        told = {"code": "invalid_request", "message": listed(places)}
    # What is no deliberate error is our bug, and the agent should hear of it.
    except Exception as error:
        told = {"code": "bug", "message": f"This is a bug in KernelCup; please report {write_crash(error)}."}
    return bounded({"error": next_step(told["code"]) | told}), True


def perform(backend: Backend, operation: Operation, form: BaseModel) -> Any:
    """Run an operation with the arguments of its tool."""
    from kernelcup.http.api.operations import said_of, shown

    answer = backend.call(operation.call, **{each.name: said_of(each, form) for each in operation.parameters})
    return [shown(each) for each in answer] if isinstance(answer, list) else shown(answer)


def submit(backend: Backend, form: Any) -> Any:
    """Submit once for each key."""
    from kernelcup.http.api.operations import shown

    name, content = form.content()
    ask = Ask(
        file_name=name,
        content=content,
        mode=form.mode,
        board=form.leaderboard,
        devices=tuple(form.devices),
        user=None,
        profile=None if form.profile is None else form.profile.options(),
        key=form.key,
    )
    return shown(backend.submit(ask))


def wait(backend: Backend, form: Any) -> Mapping[str, Any]:
    """Return what has happened to a submission since an event, once it has ended or the time is over."""
    from kernelcup.app.submissions import events
    from kernelcup.http.api.forms import EventOut, Page

    number, params, end = (
        form.submission_id,
        {"after": form.after, "limit": 200},
        time.monotonic() + form.seconds,
    )
    while not (view := backend.submission(number)).ended and time.monotonic() < end:
        time.sleep(PAUSE_S)
    found = backend.ask(
        lambda db: [EventOut.of(each) for each in events.since(db, number, form.after)],
        lambda api: api.ask(Page[EventOut].model_validate, f"/submissions/{number}/history", params).items,
    )
    jobs = [
        {"device": each.device, "state": each.state, "verdict": each.verdict, "waiting": each.waiting}
        for each in view.jobs
    ]
    return {
        "ended": view.ended,
        "jobs": jobs,
        "events": found,
        "next": found[-1].id if found else form.after,
    }


def bounded(answer: Any) -> str:
    """Return an answer as JSON, with long texts and lists cut until it is short enough."""
    texts = (json.dumps(cut(answer, *limits), ensure_ascii=False) for limits in CUTS)
    return next((text for text in texts if len(text) <= MOST), None) or json.dumps(str(answer)[: MOST // 6])


def cut(value: Any, longest: int, most: int) -> Any:
    """Return a JSON value whose texts and lists are cut, with how much is left out."""
    if isinstance(value, str) and len(value) > longest:
        return f"{value[:longest]} [{len(value) - longest:,} more characters]"
    if isinstance(value, list):
        rest = [f"[{len(value) - most:,} more]"] if len(value) > most else []
        return [*(cut(each, longest, most) for each in value[:most]), *rest]
    if isinstance(value, dict):
        return {name: cut(each, longest, most) for name, each in value.items()}
    return value
