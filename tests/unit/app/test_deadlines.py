from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from kernelcup.app.boards.deadlines import _PROBABLY_MEANT, parse_deadline, parse_opening
from kernelcup.errors import InvalidValue

NOW = datetime(2025, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-12-20", (2026, 12, 20, 23, 59, 59)),
        ("2026-12-20 6:59", (2026, 12, 20, 6, 59)),
        ("2026-12-20 06:59", (2026, 12, 20, 6, 59)),
        ("2026-12-20T06:59:30", (2026, 12, 20, 6, 59, 30)),
        (" 2026-12-20 06:59 ", (2026, 12, 20, 6, 59)),
        ("2026-12-20T06:59:30Z", (2026, 12, 20, 6, 59, 30)),
        ("2026-12-20 06:59 UTC", (2026, 12, 20, 6, 59)),
        ("2026-12-20 06:59+02:00", (2026, 12, 20, 4, 59)),
        ("2026-12-20 06:59 -0530", (2026, 12, 20, 12, 29)),
        ("2026-12-20 23:59 Europe/Paris", (2026, 12, 20, 22, 59)),
        ("2026-07-20 23:59 Europe/Paris", (2026, 7, 20, 21, 59)),
        ("2026-12-20 America/Los_Angeles", (2026, 12, 21, 7, 59, 59)),
        ("2026-12-20 Etc/GMT+5", (2026, 12, 21, 4, 59, 59)),
        ("2030-07-20 23:59 AoE", (2030, 7, 21, 11, 59)),
        ("2030-07-20 aoe", (2030, 7, 21, 11, 59, 59)),
        ("2026-12-20 06:59 GMT", (2026, 12, 20, 6, 59)),
        ("2026-12-20T06:59:30.5Z", (2026, 12, 20, 6, 59, 30, 500_000)),
        ("2026-12-20 6:59:30.000001 AoE", (2026, 12, 20, 18, 59, 30, 1)),
        ("2026-12-20T06:59:30.123456789+00:00", (2026, 12, 20, 6, 59, 30, 123_456)),
    ],
)
def test_a_deadline_is_read_in_the_known_forms(text: str, expected: tuple[int, ...]) -> None:
    assert parse_deadline(text, NOW) == datetime(*expected, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        *("", "soon", "20.12.2026", "2026-13-01", "2026-02-30", "2026-12-20 25:00", "2026-12-20 12:61"),
        *(
            "2026-12-20 12:00 Europe/Atlantis",
            "2026-12-20 12",
            "12:00",
            "2026-12-20 12:00.5",
            "2026-12-20 12:00:00.",
            "2026-12-20 12:00 ../etc/passwd",
        ),
        *("2026-12-20 12:00 +99:00", "0001-01-01 0:00 +10:00", "٢٠٢٦-12-20", "2026-12-20 12:00 Europe"),
    ],
)
def test_what_is_no_moment_is_refused_with_the_known_forms(text: str) -> None:
    with pytest.raises(InvalidValue, match="YYYY-MM-DD HH:MM"):
        parse_deadline(text, NOW)


@pytest.mark.parametrize(
    ("zone", "meant"),
    [
        ("EST", "America/New_York"),
        ("MST", "America/Denver"),
        ("HST", "Pacific/Honolulu"),
        ("PST", "America/Los_Angeles"),
        ("pdt", "America/Los_Angeles"),
        ("CET", "Europe/Berlin"),
        ("EST5EDT", "America/New_York"),
        ("Japan", "Asia/Tokyo"),
    ],
)
def test_an_abbreviation_of_a_zone_is_refused_with_the_zone_that_is_probably_meant(
    zone: str, meant: str
) -> None:
    with pytest.raises(InvalidValue, match=f"'{zone}' is not the name of a time zone; {meant} is probably"):
        parse_deadline(f"2030-07-20 23:59 {zone}", NOW)


def test_an_unknown_zone_has_no_guess() -> None:
    with pytest.raises(InvalidValue, match="'XYZ' is not the name of a time zone; expected YYYY"):
        parse_deadline("2030-07-20 23:59 XYZ", NOW)


def test_each_zone_that_is_proposed_exists() -> None:
    assert all(ZoneInfo(zone).key == zone for zone in set(_PROBABLY_MEANT.values()))


def test_a_deadline_in_the_past_is_refused() -> None:
    with pytest.raises(InvalidValue, match="2024-12-31 23:59:59 UTC, which has already passed"):
        parse_deadline("2024-12-31", NOW)


def test_an_hour_that_happens_twice_means_the_later_one() -> None:
    assert parse_deadline("2026-10-25 02:30 Europe/Paris", NOW) == datetime(2026, 10, 25, 1, 30, tzinfo=UTC)


def test_an_hour_that_does_not_happen_is_refused() -> None:
    with pytest.raises(InvalidValue, match="skip this hour"):
        parse_deadline("2026-03-29 02:30 Europe/Paris", NOW)


def test_a_date_alone_opens_at_its_start() -> None:
    assert parse_opening("2024-12-20") == datetime(2024, 12, 20, tzinfo=UTC)
