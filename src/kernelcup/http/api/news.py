"""News of leaderboards, and the webhooks that receive them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from kernelcup.app.news import stream
from kernelcup.app.news.stream import Addressed
from kernelcup.domain import LARGEST_ID, NewsKind
from kernelcup.http.api.forms import Page, Shown
from kernelcup.http.dependencies import ActorDep, Db, Limit
from kernelcup.http.route import ApiRoute

router = APIRouter(tags=["news"], route_class=ApiRoute)


class NewsOut(Shown):
    """A piece of news."""

    id: int = Field(description="Grows with time; webhooks send it as `news-ID`.")
    kind: NewsKind
    at: datetime
    board: str = Field(serialization_alias="leaderboard")
    device: str
    submission: int | None
    user: str = Field(description="The submission's user; empty if the news are not about a submission.")
    score_s: float | None
    tied: bool = Field(description="Whether others share the first place.")
    other: str = Field(
        serialization_alias="before", description="Previous holder of the place; empty for none."
    )
    personal: bool = Field(description="Whether it is addressed to you alone.")
    moment: datetime | None = Field(serialization_alias="deadline")
    text: str = Field(examples=["ada takes the first place of vectoradd on H100 with 13.42 µs."])


class AddressedOut(NewsOut):
    """A piece of news for one person, with their account at a sign-in provider."""

    subject: str = Field(description="The account's number at the provider.")
    login: str

    @classmethod
    def told(cls, found: Addressed) -> AddressedOut:
        """Show a piece of news and its addressee."""
        values = {name: getattr(found.item, name) for name in NewsOut.model_fields}
        return cls(**values, subject=found.subject, login=found.login)


class AddressedPageOut(BaseModel):
    """News for single persons."""

    items: list[AddressedOut]
    newest: int = Field(description="Pass it as `after` in the next request.")


@router.get("/news")
def show_news(
    db: Db,
    actor: ActorDep,
    leaderboard: Annotated[str | None, Query(max_length=200, description="Only of this leaderboard.")] = None,
    after: Annotated[
        int | None,
        Query(ge=0, le=LARGEST_ID, description="Only news after this number; default: the newest."),
    ] = None,
    limit: Limit = 50,
) -> Page[NewsOut]:
    """Show news of the leaderboards that you may see, oldest first."""
    found = stream.items(db, actor, board=leaderboard, after_id=after, limit=limit + 1)
    more = after is not None and len(found) > limit
    page = found[:limit] if after is not None else found[-limit:]
    return Page(items=[NewsOut.of(each) for each in page], next=page[-1].id if more else None)


@router.get("/news/addressed")
def show_addressed(
    db: Db,
    actor: ActorDep,
    after: Annotated[
        int | None, Query(ge=0, le=LARGEST_ID, description="None: return only the newest number.")
    ] = None,
    provider: Annotated[str, Query(max_length=50)] = "discord",
    limit: Limit = 50,
) -> AddressedPageOut:
    """Show news addressed to single persons, for a bot that delivers them."""
    newest = stream.newest_id(db) if after is None else after
    found = stream.addressed(db, actor, provider=provider, after_id=newest, limit=limit)
    return AddressedPageOut(items=[AddressedOut.told(each) for each in found.items], newest=found.newest)
