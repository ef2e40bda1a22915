"""Reports that an earlier version stored."""

from __future__ import annotations

from typing import Any

import pytest

from builders import make_audit, make_case, make_report, make_stage
from kernelcup_harness.protocol import (
    Audit,
    Calibration,
    ProtocolError,
    RunReport,
    Timing,
    TrustLevel,
    from_json,
    to_json,
)


def of_an_earlier_version() -> tuple[RunReport, dict[str, Any]]:
    """Return a report, and how an earlier version stored it: with fields of its clocks."""
    audit = make_audit(1e3, level=TrustLevel.REPLAYED)
    case = make_case(timing=Timing(samples_ns=[1e3] * 5, audit=audit), parameters={"armed": 1})
    report = make_report(stages=[make_stage([case])], calibration=Calibration(canary_ns=5e4))
    stored = to_json(report)
    timing = stored["stages"][0]["cases"][0]["timing"]
    timing |= {key: [1.0] for key in Timing.past_keys}
    timing["audit"] |= dict.fromkeys(Audit.past_keys, 1.0)
    stored["calibration"] |= dict.fromkeys(Calibration.past_keys, 1.0)
    return report, stored


def test_fields_of_older_clocks_are_left_out() -> None:
    report, stored = of_an_earlier_version()
    assert from_json(RunReport, stored) == report


def test_reading_changes_nothing_in_what_is_stored() -> None:
    _, stored = of_an_earlier_version()
    from_json(RunReport, stored)
    assert "handshake_ns" in stored["stages"][0]["cases"][0]["timing"]["audit"]


def test_other_unknown_fields_are_refused() -> None:
    stored = to_json(make_report([1e3]))
    stored["stages"][0]["cases"][0]["timing"]["odd_ns"] = 1.0
    with pytest.raises(ProtocolError, match=r"timing\.odd_ns: unknown key"):
        from_json(RunReport, stored)


@pytest.mark.parametrize("stages", [None, 3, [3], [{"cases": 3}], [{"cases": [{"timing": 3}]}]])
def test_what_is_no_report_is_refused(stages: object) -> None:
    with pytest.raises(ProtocolError):
        from_json(RunReport, to_json(make_report([1e3])) | {"stages": stages})
