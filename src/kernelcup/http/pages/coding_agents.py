"""What a coding agent reads: ``/llms.txt`` for the server, ``/b/NAME.json`` for a leaderboard."""

from __future__ import annotations

import json
from dataclasses import fields
from importlib import resources

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse

from kernelcup.app.results.brief import Brief, show_brief, steps
from kernelcup.app.results.overview import list_summaries
from kernelcup.http.dependencies import ActorDep, Db, Now, PlatformDep
from kernelcup.http.route import ApiRoute
from kernelcup.reporting.sections import Section

MOST_LISTED = 50

router = APIRouter(route_class=ApiRoute)


@router.api_route("/llms.txt", methods=["GET", "HEAD"])
def show_text(db: Db, actor: ActorDep, now: Now, platform: PlatformDep) -> PlainTextResponse:
    """Say how an agent gets from nothing to a place on this server."""
    url = platform.config.server.public_url
    boards = [
        f"- [{each.board.name}]({url}/b/{each.board.name}.json): {each.board.phase(now)}, "
        f"{', '.join(each.board.devices)}. {each.summary}"
        for each in list_summaries(db, viewer=actor)[:MOST_LISTED]
    ]
    way = steps("NAME", "DEVICE", "submission.py")
    calls = [
        f"{number}. {step.text}\n\n       {step.http}"
        + (f"\n       {json.dumps(step.body)}" if step.body else "")
        for number, step in enumerate(way, 1)
    ]
    text = resources.files("kernelcup.http.pages").joinpath("templates", "llms.txt").read_text("utf-8")
    return PlainTextResponse(
        text.format(
            url=url,
            boards="\n".join(boards) or "There is none yet.",
            keys=", ".join(f"`{each.name}`" for each in fields(Brief)),
            calls="\n".join(calls),
            commands="\n".join(f"    {each.command}" for each in way if each.command),
            sections=", ".join(f"`{each}`" for each in Section),
        )
    )


@router.api_route("/b/{name}.json", methods=["GET", "HEAD"])
def show_board(name: str, db: Db, actor: ActorDep, platform: PlatformDep) -> Brief:
    """Show all that a submission to a leaderboard has to know."""
    config = platform.config
    return show_brief(db, name, actor, known_devices=config.devices, home=config.data_dir)
