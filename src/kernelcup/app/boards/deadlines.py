"""Parse dates and times as people write them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kernelcup.errors import InvalidValue

ALLOWED = (
    "YYYY-MM-DD, YYYY-MM-DD HH:MM or YYYY-MM-DD HH:MM:SS[.ffffff], followed, if it is not UTC, "
    "by an offset (+02:00), a zone (Europe/Paris) or AoE (the end of a day anywhere on Earth)"
)

AOE = timezone(timedelta(hours=-12), "AoE")

_PROBABLY_MEANT = {
    **dict.fromkeys(("EST", "EDT", "ET", "EST5EDT"), "America/New_York"),
    **dict.fromkeys(("CST", "CDT", "CT", "CST6CDT"), "America/Chicago"),
    **dict.fromkeys(("MST", "MDT", "MT", "MST7MDT"), "America/Denver"),
    **dict.fromkeys(("PST", "PDT", "PT", "PST8PDT"), "America/Los_Angeles"),
    **dict.fromkeys(("AKST", "AKDT"), "America/Anchorage"),
    "HST": "Pacific/Honolulu",
    **dict.fromkeys(("BST", "GB"), "Europe/London"),
    **dict.fromkeys(("WET", "WEST"), "Europe/Lisbon"),
    **dict.fromkeys(("CET", "CEST", "MET", "MEZ", "MESZ"), "Europe/Berlin"),
    **dict.fromkeys(("EET", "EEST"), "Europe/Athens"),
    "MSK": "Europe/Moscow",
    "IST": "Asia/Kolkata",
    "SGT": "Asia/Singapore",
    **dict.fromkeys(("HKT", "HONGKONG"), "Asia/Hong_Kong"),
    **dict.fromkeys(("JST", "JAPAN"), "Asia/Tokyo"),
    **dict.fromkeys(("KST", "ROK"), "Asia/Seoul"),
    "PRC": "Asia/Shanghai",
    **dict.fromkeys(("AEST", "AEDT"), "Australia/Sydney"),
}
"""Abbreviations, which several places share or which mean one half of the year only."""

_MOMENT = re.compile(
    r"(?P<day>\d{4}-\d{2}-\d{2})"
    r"(?:(?:T|\s+)(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:\.\d{1,9})?))?)?"
    r"\s*(?P<zone>[Zz]|[+-]\d{2}:?\d{2}|[A-Za-z][\w+/-]*)?",
    re.ASCII,
)

_DAY_START = time(0, 0, 0)
_DAY_END = time(23, 59, 59)


def parse_deadline(text: str, now: datetime) -> datetime:
    """Read a deadline and return it in UTC.

    A date alone means its last second, 23:59:59. Without a zone the time is UTC. An hour that occurs
    twice in a zone, when daylight saving time ends, means the later one.

    Raises:
        InvalidValue: It is not written in a known form, does not exist, or is not after ``now``.
    """
    deadline = _parse(text, bare_date_means=_DAY_END)
    if deadline <= now:
        raise InvalidValue(f"{text!r} is {deadline:%Y-%m-%d %H:%M:%S} UTC, which has already passed.")
    return deadline


def parse_end(text: str) -> datetime:
    """Read a moment at which something ends, past or not: a date alone means its last second."""
    return _parse(text, bare_date_means=_DAY_END)


def parse_opening(text: str) -> datetime:
    """Read the moment at which something opens: like a deadline, but a date alone means its start."""
    return _parse(text, bare_date_means=_DAY_START)


def _parse(text: str, *, bare_date_means: time) -> datetime:
    match = _MOMENT.fullmatch(text.strip())
    if match is None:
        raise InvalidValue(f"{text!r} is not a date or time; expected {ALLOWED}.")
    try:
        day = date.fromisoformat(match["day"])
        clock = bare_date_means
        if match["hour"] is not None:
            clock = time.fromisoformat(f"{match['hour']:0>2}:{match['minute']}:{match['second'] or '00'}")
        return _in_utc(datetime.combine(day, clock, tzinfo=_zone(match["zone"])), text)
    except (ValueError, OverflowError) as error:
        raise InvalidValue(f"{text!r}: {error}; expected {ALLOWED}.") from error


def _in_utc(moment: datetime, text: str) -> datetime:
    utc = moment.replace(fold=1).astimezone(UTC)
    if utc.astimezone(moment.tzinfo).replace(tzinfo=None) != moment.replace(tzinfo=None):
        raise InvalidValue(f"{text!r}: the clocks of that zone skip this hour on that day.")
    return utc


def _zone(name: str | None) -> tzinfo:
    short = (name or "UTC").upper()
    if name is None or short in ("Z", "UTC", "GMT"):
        return UTC
    if short == "AOE":
        return AOE
    if name[0] in "+-":
        if int(name[1:3]) > 23:
            raise ValueError(f"an offset {name!r} has too many hours")
        offset = datetime.strptime(name, "%z").tzinfo
        assert offset is not None
        return offset
    if "/" not in name:
        meant = f"; {_PROBABLY_MEANT[short]} is probably meant" if short in _PROBABLY_MEANT else ""
        raise ValueError(f"{name!r} is not the name of a time zone{meant}")
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(f"there is no time zone {name!r}") from error
