"""What is said of the counters of kernels that were profiled on a GPU: see ``benchmarks/profile_jobs.py``."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

from kernelcup.reporting.bottlenecks import explain, roofline, rules
from kernelcup.reporting.bottlenecks.launches import Launch
from kernelcup_harness.protocol import Counters, KernelCounters, ProfileOptions, from_json

DATA = Path(__file__).parents[1] / "data/profiles"
CALLS = json.loads((DATA / "calls-h100.json").read_text())
KERNELS = json.loads((DATA / "kernels-h100.json").read_text())
SECOND = json.loads((DATA / "second-h100.json").read_text())
"""Kernels that were written after the rules."""


def call(name: str) -> Counters:
    """A call that ncu profiled on an H100."""
    return from_json(Counters, CALLS[name])


def codes(found: Counters) -> list[str]:
    return [each.code for each in explain.sentences(found)]


def made(name: str = "f", **counters: float) -> KernelCounters:
    return KernelCounters(
        name=name, grid=[1000, 1, 1], block=[256, 1, 1], counters={"time_ns": 20_000.0, **counters}
    )


def profile(*kernels: KernelCounters, data_bytes: float = 0.0) -> Counters:
    return Counters(
        case=0, options=ProfileOptions(), tool="ncu 1", kernels=list(kernels), data_bytes=data_bytes
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("triton", ["memory_bound"]),
        ("dependent", ["memory_bound"]),
        ("matmul", ["compute_bound"]),
        ("aten", ["unfused", "memory_bound", "latency"]),
        ("splitk", ["too_few_blocks", "short"]),
    ],
)
def test_calls_of_an_h100_are_explained(name: str, expected: list[str]) -> None:
    assert codes(call(name)) == expected


@pytest.mark.parametrize("name", [name for name, each in KERNELS.items() if each["fault"]])
def test_a_planted_fault_is_named(name: str) -> None:
    each = KERNELS[name]
    assert each["fault"] in codes(from_json(Counters, each["counters"]))


@pytest.mark.parametrize("name", [name for name, each in KERNELS.items() if not each["fault"]])
def test_a_good_kernel_is_not_accused(name: str) -> None:
    found = from_json(Counters, KERNELS[name]["counters"])
    assert not [each.text for each in explain.sentences(found) if each.is_fault]


@pytest.mark.parametrize("name", SECOND)
def test_kernels_that_are_younger_than_the_rules_are_explained(name: str) -> None:
    fault, found = SECOND[name]["fault"], explain.sentences(from_json(Counters, SECOND[name]["counters"]))
    accused = [each.code for each in found if each.is_fault]
    assert fault in accused if fault else not accused


def test_there_are_at_most_six_sentences() -> None:
    kernels = [
        made(f"k{number}", fp64_pct=80.0, sectors=9.0, sectors_excess=8.0, memory_pct=50.0)
        for number in range(9)
    ]
    assert len(explain.sentences(profile(*kernels))) == 6


def test_kernels_with_little_of_the_time_are_not_accused() -> None:
    small = made("small", time_ns=100.0, fp64_pct=80.0)
    assert codes(profile(made("large", dram_pct=90.0), small)) == ["memory_bound"]


def test_many_short_kernels_are_a_fault_of_the_call() -> None:
    found = profile(*[made(time_ns=1_500.0)] * 40)
    assert codes(found) == ["launch_bound"]
    assert "40 kernels of 1.5 µs" in explain.sentences(found)[0].text


def test_each_rule_has_evidence_and_advice() -> None:
    told = [each for each in (rule(Launch(FAULTY)) for rule in rules.RULES) if each is not None]
    assert len({each.code for each in told}) == len(told) >= 4
    assert all(re.search(r"\d", each.text) and each.advice.endswith(".") for each in told)


FAULTY = made(
    fp64_pct=80.0,
    sectors=100.0,
    sectors_excess=88.0,
    memory_pct=60.0,
    shared_wavefronts=100.0,
    shared_excess=90.0,
    l1_pct=80.0,
    threads_per_instruction=9.0,
    issue_pct=50.0,
    load_bytes_per_sector=4.0,
)


def test_a_missing_counter_accuses_nobody() -> None:
    assert [each.code for each in rules.verdicts(Launch(made()))] == ["latency"]


def test_the_roofline_shows_roofs_and_kernels() -> None:
    picture = roofline.picture(call("matmul"))
    assert picture.count("<circle") == 1
    assert '<text class="number"' in picture
    assert "tensor cores" in picture
    assert "FP32" in picture
    assert "nvjet_sm90" in picture
    assert "nan" not in picture.lower()


def test_operations_on_halves_count_and_have_their_roof() -> None:
    """An addition of halves in CUDA C++ on an H100, of which ncu counts HFMA2 only."""
    add = made(
        time_ns=9728.0,
        cycles=13_900.0,
        hfma=113.34,
        dram_read=33.5e6,
        dram_written=1.0e6,
        dram_peak=1280.0,
        dram_hz=2.6e9,
        ffma_peak=16_896.0,
        hfma_peak=16_896.0,
        hz=1.43e9,
    )
    launch = Launch(add)
    assert launch.flops == pytest.approx(4 * 113.34 * 13_900)
    assert roofline.roofs([launch])["FP16"] == 2 * roofline.roofs([launch])["FP32"]
    assert ">FP16</text>" in roofline.picture(profile(add))
    assert "FP16" not in roofline.picture(call("matmul"))


def test_without_bytes_or_operations_there_is_no_roofline() -> None:
    assert roofline.picture(profile(made())) == ""


@pytest.mark.parametrize("value", [-1.0, 1e308, 5e-324])
@pytest.mark.parametrize(
    "name", ["time_ns", "dram_read", "dram_peak", "dram_hz", "ffma_peak", "tensor_flops"]
)
def test_a_forged_counter_has_no_place_in_the_roofline(name: str, value: float) -> None:
    found = call("matmul")
    forged = [dataclasses.replace(each, counters={**each.counters, name: value}) for each in found.kernels]
    picture = roofline.picture(dataclasses.replace(found, kernels=forged))
    assert not re.search("nan|inf", picture)


def test_names_of_kernels_cannot_leave_the_picture() -> None:
    first = call("matmul").kernels[0]
    evil = dataclasses.replace(first, name="<script>alert(1)</script>")
    assert "<script>" not in roofline.picture(profile(evil))


def test_two_profiles_say_what_has_changed() -> None:
    before, after = (
        profile(made("a", dram_pct=40.0), made("gone")),
        profile(made("a", time_ns=10_000.0, dram_pct=80.0), made("new", time_ns=5_000.0)),
    )
    told = "\n".join(explain.differences(before, after))
    assert "all kernels: 40.0 -> 15.0 µs (-62.5%)" in told
    assert "a: 20.0 -> 10.0 µs (-50.0%), memory 40 -> 80 %" in told
    assert "new: new, 5.0 µs" in told
    assert "gone: gone, 20.0 µs" in told
    assert "now: memory_bound (a)" in told


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("void at::native::reduce_kernel<512, 1, at::Op<float>>(T3)", "reduce_kernel"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        ("<>", "<>"),
    ],
)
def test_names_are_shortened(name: str, shown: str) -> None:
    assert explain.short(name) == shown


@pytest.mark.parametrize(
    ("mangled", "shown"),
    [
        ("_ZN2at6native29vectorized_elementwise_kernelILi4EEEvi", "vectorized_elementwise_kernel"),
        ("_Z3fooPf", "foo"),
        ("triton_fma", "triton_fma"),
        ("_Z", "_Z"),
        ("_Z99999999999f", "f"),
    ],
)
def test_mangled_names_are_shortened(mangled: str, shown: str) -> None:
    assert explain.demangled(mangled) == shown
