"""All pages. Add the router of a new module of pages here."""

from __future__ import annotations

from fastapi import APIRouter

from kernelcup.http.pages import (
    account,
    assets,
    bell,
    coding_agents,
    docket,
    documents,
    event,
    people,
    status,
)
from kernelcup.http.pages.admin import devices, home, late, limits, links, manage, new_boards, reviews, users
from kernelcup.http.pages.boards import badges, boards, feeds, history, live, statement, webhooks
from kernelcup.http.pages.courses import course, grades
from kernelcup.http.pages.courses import people as course_people
from kernelcup.http.pages.submissions import listing, submissions, submit

router = APIRouter()
for _each in (
    assets,
    coding_agents,  # before the page of a leaderboard, whose address its own begins with
    boards,
    history,
    live,
    listing,
    statement,
    badges,
    course,
    course_people,
    grades,
    docket,
    documents,
    event,
    feeds,
    status,
    submissions,
    submit,
    webhooks,
    account,
    bell,
    people,
    home,
    new_boards,
    manage,
    late,
    reviews,
    devices,
    users,
    links,
    limits,
):
    router.routes.extend(_each.router.routes)
router.routes.extend(bell.live.routes)
