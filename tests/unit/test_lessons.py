from __future__ import annotations

import dataclasses

import pytest

from builders import NOT_REPLAYED, make_audit, make_case, make_report, make_stage, make_wall_report
from kernelcup.reporting import columns
from kernelcup.reporting.insights import MORE_OVERHEAD_THAN_TIME, OVERHEAD, Best, lessons, links_bytes_per_s
from kernelcup_harness.protocol import Finding, StageName, Timing, TrustLevel, Work

TIMING = Timing(samples_ns=[12_400.0] * 10, offset_ns=2_400.0, discarded_ns=[20_000.0])


def lesson(best: Best | None = None, **case: object):
    report = make_report(stages=[make_stage([make_case(**({"timing": TIMING} | case))])])
    (found,) = lessons(report, StageName.RANKED, best).values()
    return found


def test_a_case_tells_its_time_beside_what_the_clock_read() -> None:
    found = lesson()
    assert (found.time_ns, found.raw_ns, found.calls, found.discarded) == (10_000.0, 12_400.0, 10, 1)
    # Equal samples, but kernels differ between processes: 0.9 % at 10 us.
    assert (found.low_ns, found.high_ns) == pytest.approx((9_825.0, 10_175.0), abs=1.0)


def test_what_is_declared_gives_the_share_of_what_the_device_attains() -> None:
    found = lesson(work=Work(bytes=2e7), floor_ns=8_000.0)
    assert (found.bound_by, found.share, found.flops_per_s) == ("bandwidth", pytest.approx(0.8), None)
    assert found.bytes_per_s == pytest.approx(2e12)
    assert columns.attained(found) == "80 % (2 TB/s)"


def test_with_bytes_and_flops_the_nearer_limit_counts() -> None:
    found = lesson(work=Work(bytes=2e7, flops=1e10, precision="float16"), floor_ns=5_000.0)
    assert (found.bound_by, found.share) == ("roofline", pytest.approx(0.5))
    assert columns.attained(found) == "50 % (2 TB/s, 1e+03 TFLOP/s)".replace("1e+03", "1000")


@pytest.mark.parametrize(
    ("topology", "capability", "share"),
    [
        ("NV18", "9.0", 0.25),
        ("NV18", "10.0", 0.125),
        ("NV9", "9.0", 0.5),
        ("PCIe", "9.0", None),
        ("NV4, PCIe", "8.0", None),
        (None, "9.0", None),
        ("NV18", None, None),
        ("NV0", "9.0", None),
    ],
)
def test_what_ranks_send_stands_beside_what_their_links_can(
    topology: str | None, capability: str | None, share: float | None
) -> None:
    case = make_case(timing=TIMING, work=Work(link_bytes=1.125e6))
    ranks = {"capability": capability, "ranks": {"topology": topology, "count": 2}}
    report = make_report(stages=[make_stage([case])], environment=ranks)
    (found,) = lessons(report, StageName.RANKED).values()
    assert found.link_bytes_per_s == pytest.approx(112.5e9)
    assert found.link_share == (None if share is None else pytest.approx(share))
    assert columns.links(found) == ("" if share is None else f"{columns.percent(share)} (112 GB/s)")
    assert ("of the links" in columns.columns([found])) == (share is not None)


@pytest.mark.parametrize(
    "ranks", [None, 3, "NV18", [], {"topology": ["NV18"]}, {"topology": "NV" + "9" * 400}]
)
def test_any_other_word_of_a_machine_about_its_links_is_no_share(ranks: object) -> None:
    assert links_bytes_per_s({"capability": "9.0", "ranks": ranks}) is None


def test_without_a_calibrated_device_the_rate_stands_alone() -> None:
    found = lesson(work=Work(bytes=2e7))
    assert found.share is None
    assert columns.attained(found) == ""  # a rate is no share
    assert columns.rates(found) == "2 TB/s"
    assert "rate" in columns.columns([found])
    assert "of attainable" not in columns.columns([found])


def test_the_reference_and_the_best_are_compared_case_by_case() -> None:
    best = Best(submission=7, score_s=5e-6, cases_ns={0: 5_000.0})
    found = lesson(best, reference_ns=25_000.0)
    assert (found.over_reference, found.over_best) == (pytest.approx(2.5), pytest.approx(0.5))


def test_times_of_an_emulated_device_are_compared_with_nothing() -> None:
    best = Best(submission=7, score_s=5e-6, cases_ns={0: 5_000.0})
    report = make_report(
        stages=[make_stage([make_case(timing=TIMING, reference_ns=25_000.0)])], comparable=False
    )
    (found,) = lessons(report, StageName.RANKED, best).values()
    assert (found.time_ns, found.over_reference, found.over_best) == (10_000.0, None, None)


def test_a_hidden_case_is_not_compared_with_the_best() -> None:
    best = Best(submission=7, score_s=5e-6, cases_ns={0: 5_000.0})
    assert lesson(best, hidden=True).over_best is None


def test_a_time_by_the_wall_clock_has_its_overhead_and_the_submissions_own_time_beside_it() -> None:
    (found,) = lessons(make_wall_report(), StageName.RANKED).values()
    assert (found.time_ns, found.overhead_ns, found.own_ns, found.raw_ns) == (8e4, 5.5e4, 2.1e4, None)
    assert columns.summary(found) == "overhead 55 µs, self-measured 21 µs, by the wall clock"
    assert found.notes == (NOT_REPLAYED, OVERHEAD)


def test_an_overhead_longer_than_the_time_is_not_called_a_part_of_it() -> None:
    (found,) = lessons(make_wall_report(4e4), StageName.RANKED).values()
    assert found.notes == (NOT_REPLAYED, MORE_OVERHEAD_THAN_TIME)


def test_what_was_found_about_a_case_is_told_with_its_clock() -> None:
    finding = Finding(code="not_replayed", text="its calls are not replayed: it uses JAX")
    audit = make_audit(2_000.0, level=TrustLevel.WALL_CLOCK, findings=[finding])
    found = lesson(timing=dataclasses.replace(TIMING, audit=audit))
    assert (found.trust, found.notes) == (TrustLevel.WALL_CLOCK, (finding.text,))
    assert columns.clock(found) == "by the wall clock"


def test_what_holds_of_several_cases_is_said_once() -> None:
    first = lesson()
    learned = [
        dataclasses.replace(first, index=index, notes=notes)
        for index, notes in enumerate([("slow", "odd"), (), ("slow", "slow")])
    ]
    assert columns.notes(learned) == {"slow": "cases 0, 2", "odd": "case 0"}


def test_a_case_without_a_time_teaches_nothing() -> None:
    report = make_report(stages=[make_stage([make_case(None)])])
    assert lessons(report, StageName.RANKED) == {}
    assert lessons(report, StageName.BENCHMARK) == {}


@pytest.mark.parametrize("capability", ["9" * 5_000, "9", "", None, ["9.0"], "x.0"])
def test_any_other_word_of_a_machine_about_its_gpu_is_no_share(capability: object) -> None:
    ranks = {"topology": "NV18"}
    assert links_bytes_per_s({"capability": "9.0", "ranks": ranks}) == 450e9
    assert links_bytes_per_s({"capability": capability, "ranks": ranks}) is None
