"""JobSpec and RunReport: what goes out comes back, and what is wrong is named with its path."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import types
import typing
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import make_case, make_report, make_spec
from kernelcup_harness import protocol
from kernelcup_harness.protocol import (
    CaseResult,
    Difference,
    JobSpec,
    Limits,
    Mismatch,
    ProtocolError,
    RunReport,
    StageReport,
    Timing,
    canonical_hash,
    dumps,
    estimates,
    from_json,
    loads,
    to_json,
)
from properties import examples

JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=5,
)


def strategy_for(kind: Any) -> st.SearchStrategy[Any]:
    """Return what makes values of a type that occurs in the protocol."""
    plain: dict[Any, st.SearchStrategy[Any]] = {
        Any: JSON,
        str: st.text(max_size=8),
        int: st.integers(-(1 << 63), (1 << 63) - 1),
        bool: st.booleans(),
        float: st.floats(allow_nan=False, allow_infinity=False),
    }
    if kind in plain:
        return plain[kind]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        (inner,) = (each for each in arguments if each is not type(None))
        return st.none() | strategy_for(inner)
    if origin is list:
        return st.lists(strategy_for(arguments[0]), max_size=3)
    if origin is dict:
        return st.dictionaries(st.text(max_size=4), strategy_for(arguments[1]), max_size=3)
    if issubclass(kind, enum.Enum):
        return st.sampled_from(kind)
    hints = typing.get_type_hints(kind)
    fields = {field.name: strategy_for(hints[field.name]) for field in dataclasses.fields(kind)}
    if "version" in fields:
        fields["version"] = st.just(protocol.PROTOCOL_VERSION)
    if kind is protocol.KeptFile:
        fields["name"] = st.from_regex(r"\A[a-z][a-z.-]*\Z")
    return st.builds(kind, **fields)


@settings(max_examples=examples(60))
@given(strategy_for(JobSpec))
def test_every_job_survives_json(spec: JobSpec) -> None:
    assert loads(JobSpec, dumps(spec)) == spec
    assert loads(JobSpec, dumps(spec).encode()) == spec


@settings(max_examples=examples(60))
@given(strategy_for(RunReport))
def test_every_report_survives_json(report: RunReport) -> None:
    assert loads(RunReport, dumps(report)) == report


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", '{"$float": "nan"}'])
def test_a_time_that_is_no_number_is_refused(number: str) -> None:
    with pytest.raises(ProtocolError, match=r"Timing\.samples_ns\.1: expected"):
        loads(Timing, f'{{"samples_ns": [1.0, {number}]}}')


def test_a_case_value_that_json_does_not_know_stays_a_number() -> None:
    spec = make_spec(tests=[{"scale": math.inf}])
    json.loads(dumps(spec), parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert loads(JobSpec, dumps(spec)).tests == [{"scale": math.inf}]
    with pytest.raises(ProtocolError, match=r"scale: expected a finite float"):
        loads(JobSpec, dumps(spec).replace('{"$float":"inf"}', "Infinity"))


def test_whole_numbers_are_good_where_broken_ones_are_expected() -> None:
    value = from_json(Limits, {"test_s": 5}).test_s
    assert (value, type(value)) == (5.0, float)


@pytest.mark.parametrize("hostile", ["\ud800", "\x00", "</script>", "\u2028\n"])
def test_any_text_survives(hostile: str) -> None:
    report = make_report(message=hostile)
    line = dumps(report)
    assert "\n" not in line
    assert line.isascii()
    assert loads(RunReport, line) == report


# What is ranked


def audit(**changes: Any) -> protocol.Audit:
    values: dict[str, Any] = {
        "captured": True,
        "score_ns": 30.0,
        "level": protocol.TrustLevel.REPLAYED,
    }
    return protocol.Audit(**(values | changes))


def test_a_time_without_an_audit_is_the_samples_without_an_empty_graphs() -> None:
    timing = Timing(samples_ns=[10.0, 12.0, 14.0], offset_ns=2.0)
    assert (timing.raw_ns, timing.claim_ns, timing.score_ns) == (12.0, 10.0, 10.0)
    low, high = estimates.interval_ns(timing) or (0.0, 0.0)
    assert low < 10.0 < high


def test_an_interval_holds_what_a_gpu_takes_in_other_processes() -> None:
    samples = [9_900.0, 10_000.0, 10_100.0] * 10
    host, gpu = Timing(samples_ns=samples), Timing(samples_ns=[ns + 2e3 for ns in samples], offset_ns=2e3)
    assert estimates.interval_ns(host) == estimates.sampling_interval_ns(host)
    assert estimates.process_error_ns(host) == 0.0
    (low, high), (inner_low, inner_high) = (
        estimates.interval_ns(gpu) or (0.0, 0.0),
        estimates.sampling_interval_ns(gpu) or (0.0, 0.0),
    )
    # 80 ns and 0.4 %.
    assert estimates.process_error_ns(gpu) == pytest.approx(math.hypot(80.0, 40.0))
    half = math.hypot(1.96 * estimates.process_error_ns(gpu), inner_high - 10e3)
    assert (10e3 - low, high - 10e3) == pytest.approx((half, half), rel=1e-3)
    assert low < inner_low < inner_high < high


def test_an_interval_that_is_wide_does_not_reach_below_nothing() -> None:
    timing = Timing(samples_ns=[2_010.0, 2_020.0], offset_ns=2e3)
    low, high = estimates.interval_ns(timing) or (-1.0, -1.0)
    assert low == 0.0
    assert high > timing.score_ns


def test_a_task_that_reports_its_own_mean_has_its_own_error_only() -> None:
    timing = Timing(samples_ns=[], reported_ns=50.0, reported={"err": 1.0}, offset_ns=2e3)
    assert estimates.process_error_ns(timing) == 0.0
    assert estimates.interval_ns(timing) == estimates.sampling_interval_ns(timing)


def test_what_an_audit_says_is_ranked() -> None:
    timing = Timing(samples_ns=[10.0, 12.0], audit=audit())
    assert timing.score_ns == 30.0


def test_an_interval_is_as_wide_as_that_of_the_samples_and_around_the_ranked_time() -> None:
    timing = Timing(samples_ns=[10.0, 12.0, 14.0], audit=audit())
    low, high = estimates.interval_ns(timing) or (0.0, 0.0)
    plain = estimates.interval_ns(Timing(samples_ns=[10.0, 12.0, 14.0])) or (0.0, 0.0)
    assert (low, high) == pytest.approx((plain[0] + 18.0, plain[1] + 18.0))


def test_a_contestants_own_time_is_shown_and_not_ranked() -> None:
    timing = Timing(samples_ns=[10.0, 12.0], own_ns=[3.0, 5.0], overhead_ns=4.0)
    assert (timing.read_ns, timing.score_ns) == (4.0, 11.0)
    assert Timing(samples_ns=[10.0, 12.0]).read_ns == 11.0


def test_a_reported_mean_is_ranked_with_its_own_error() -> None:
    timing = Timing(samples_ns=[], reported_ns=50.0, reported={"err": 1.0})
    assert timing.score_ns == 50.0
    assert estimates.interval_ns(timing) == pytest.approx((48.04, 51.96), abs=0.01)
    assert estimates.interval_ns(Timing(samples_ns=[], reported_ns=50.0)) is None


# What is refused


RAN = protocol.RanKernel(
    name="f", image="0", launches=1, grid=[1], block=[1], registers=1, shared_bytes=0, local_bytes=0
)
FULL_REPORT = to_json(
    make_report(
        stages=[
            StageReport(
                name=protocol.StageName.TEST,
                verdict=protocol.Verdict.WRONG_ANSWER,
                cases=[
                    dataclasses.replace(
                        make_case(
                            5.0,
                            failed_on=protocol.SampleName(input=3),
                            mismatch=Mismatch(
                                where="output",
                                wrong=1,
                                total=2,
                                largest_error=0.5,
                                first=[Difference(position=[0], expected="1", actual="2")],
                                rule="not equal",
                            ),
                        ),
                        work=protocol.Work(bytes=1.0),
                        timing=Timing(
                            samples_ns=[1.0],
                            audit=protocol.Audit(
                                captured=True,
                                score_ns=1.0,
                                level=protocol.TrustLevel.REPLAYED,
                                findings=[protocol.Finding(code="near_floor", text="near")],
                            ),
                        ),
                    ),
                ],
            )
        ],
        calibration=protocol.Calibration(),
        duel=protocol.DuelResult(),
        binaries=[protocol.BinaryUse(side="rival", run=1)],
        ran=[RAN],
        counters=protocol.Counters(
            case=0,
            options=protocol.ProfileOptions(),
            kernels=[protocol.KernelCounters(name="f", grid=[1], block=[1], counters={"time_ns": 1.0})],
            files=[protocol.KeptFile(name="report", nbytes=1, sha256="0" * 64)],
        ),
    )
)
FULL_SPEC = to_json(
    make_spec(
        replay=protocol.Replay(
            stage=protocol.StageName.TEST, case=0, sample=protocol.SampleName(input=1, twin=True)
        ),
        work=[protocol.Work(flops=1.0)],
        device=protocol.DeviceFacts(copy_bytes_per_s=1.0),
        mode=protocol.Mode.LEADERBOARD,
        binary=protocol.KeptBinary(run=1),
    )
)


def objects(kind: type, value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[type, tuple[Any, ...]]]:
    """Return every protocol object of a JSON value, with its path."""
    yield kind, path
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        inner, entry = hints[field.name], value[field.name]
        found = [each for each in (inner, *typing.get_args(inner)) if dataclasses.is_dataclass(each)]
        if found and isinstance(entry, list):
            yield from objects(found[0], entry[0], (*path, field.name, 0)) if entry else ()
        elif found and entry is not None:
            yield from objects(found[0], entry, (*path, field.name))


EVERYWHERE = [
    pytest.param(kind, value, inner, path, id=".".join(map(str, (kind.__name__, *path))))
    for kind, value in ((JobSpec, FULL_SPEC), (RunReport, FULL_REPORT))
    for inner, path in objects(kind, value)
]


def edited(value: Any, path: tuple[Any, ...]) -> tuple[Any, dict[str, Any]]:
    """Return a deep copy and the object in it at ``path``."""
    whole = json.loads(json.dumps(value))
    place = whole
    for key in path:
        place = place[key]
    return whole, place


def test_all_kinds_of_objects_are_tried() -> None:
    tried = {param.values[2] for param in EVERYWHERE}
    # What machines send is tried at the server's door, in tests/http/test_machine_messages.py.
    tried |= {protocol.Judged, protocol.Unfit, protocol.Failed}
    assert tried == {each for each in vars(protocol).values() if dataclasses.is_dataclass(each)}


@pytest.mark.parametrize(("kind", "value", "inner", "path"), EVERYWHERE)
def test_an_unknown_key_is_named_with_its_path(kind: type, value: Any, inner: type, path: Any) -> None:
    whole, place = edited(value, path)
    place["surprise"] = 1
    dotted = ".".join(map(str, (kind.__name__, *path, "surprise")))
    with pytest.raises(ProtocolError, match=f"^{dotted}: unknown key"):
        from_json(kind, whole)


@pytest.mark.parametrize(("kind", "value", "inner", "path"), EVERYWHERE)
def test_a_missing_key_is_named_with_its_path(kind: type, value: Any, inner: type, path: Any) -> None:
    for field in dataclasses.fields(inner):
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            whole, place = edited(value, path)
            del place[field.name]
            dotted = ".".join(map(str, (kind.__name__, *path, field.name)))
            with pytest.raises(ProtocolError, match=f"^{dotted}: missing"):
                from_json(kind, whole)


@pytest.mark.parametrize(("kind", "value", "inner", "path"), EVERYWHERE)
def test_a_value_of_a_wrong_type_is_named_with_its_path(
    kind: type, value: Any, inner: type, path: Any
) -> None:
    hints = typing.get_type_hints(inner)
    for field in dataclasses.fields(inner):
        if hints[field.name] is Any:
            continue
        whole, place = edited(value, path)
        place[field.name] = {"no": ["such", {"type": 1}]} if hints[field.name] != dict[str, Any] else []
        dotted = ".".join(map(str, (kind.__name__, *path, field.name)))
        with pytest.raises(ProtocolError, match=f"^{dotted}[:.]"):
            from_json(kind, whole)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"mode": "ranked"}, "JobSpec.mode: 'ranked' is not one of test, benchmark, profile, leaderboard"),
        ({"job_id": 5}, "JobSpec.job_id: expected str, got int"),
        ({"multi_gpu": 1}, "JobSpec.multi_gpu: expected bool, got int"),
        ({"sources": {"a.py": None}}, "JobSpec.sources.a.py: expected str, got NoneType"),
        ({"sources": []}, "JobSpec.sources: expected an object, got list"),
        ({"tests": [{}, []]}, "JobSpec.tests.1: expected an object, got list"),
        ({"limits": {"test_s": "5"}}, "JobSpec.limits.test_s: expected a finite float, got str"),
        ({"rules": {"checks": None}}, "JobSpec.rules.checks: expected int, got NoneType"),
    ],
)
def test_the_text_of_a_refusal_says_where_and_what(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ProtocolError) as refusal:
        from_json(JobSpec, FULL_SPEC | changes)
    assert str(refusal.value).startswith(named)


@pytest.mark.parametrize(
    "text",
    ["", "{", "nonsense", b"\xff", "[" * 100_000, '{"a":' * 100_000, "9" * 5000],
    ids=lambda text: text[:5],
)
def test_what_is_not_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(ProtocolError, match="JobSpec"):
        loads(JobSpec, text)


@pytest.mark.parametrize("text", ["null", "[]", "5", '"text"'])
def test_what_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError, match="JobSpec: expected an object"):
        loads(JobSpec, text)


def test_a_number_beyond_all_floats_is_refused() -> None:
    with pytest.raises(ProtocolError, match=r"Limits\.test_s"):
        from_json(Limits, {"test_s": 10**400})


def test_another_version_of_the_protocol_is_refused() -> None:
    with pytest.raises(ProtocolError, match="version"):
        from_json(JobSpec, FULL_SPEC | {"version": protocol.PROTOCOL_VERSION + 1})


# What is derived


def test_the_score_leaves_out_the_slowest_and_the_fastest_tenth() -> None:
    assert Timing(samples_ns=[1e9, *[10.0] * 8, 1.0]).score_ns == 10.0
    assert Timing(samples_ns=[1.0, 2.0, 6.0]).score_ns == 3.0


def test_the_error_is_that_of_the_mean() -> None:
    assert estimates.error_ns(Timing(samples_ns=[1.0, 3.0])) == pytest.approx(1.0)
    assert estimates.error_ns(Timing(samples_ns=[1.0])) is None


def test_the_hash_does_not_depend_on_the_order_of_keys() -> None:
    assert canonical_hash({"a": 1, "b": [1, {"c": 2, "d": 3}]}) == canonical_hash(
        {"b": [1, {"d": 3, "c": 2}], "a": 1}
    )
    assert canonical_hash({"a": 1}) != canonical_hash({"a": 1.5})
    assert canonical_hash(make_case()) == canonical_hash(from_json(CaseResult, to_json(make_case())))
