"""The rules of a leaderboard and its task in sentences: what counts, what answers look like, what is refused."""

from __future__ import annotations

from kernelcup.domain import Leaderboard, RankingBy, Task, TrustRule, Visibility
from kernelcup.reporting.phrases import after_rule, code_rule, cpu_rule
from kernelcup.reporting.words import REASONS
from kernelcup_harness.protocol import HarnessKind, Reason

FORM = (
    "in the form of the reference's (lengths, keys, nesting, shapes, devices; a list may be a tuple, a record a dict, "
    "a number a tensor of one element), in the input if the reference returns nothing"
)
SCORES = {
    RankingBy.LAST: "The time of the last benchmark is the score.",
    RankingBy.MEAN: "The mean of the times of all benchmarks is the score.",
    RankingBy.GEOM: "The geometric mean of the times of all benchmarks is the score.",
    RankingBy.SPEEDUP: "The mean of the speedups over the baseline in all benchmarks is the score; larger is better.",
}
FAULTS = (
    *(Reason.FORM, Reason.ALIASED, Reason.WRITES_INPUT, Reason.REPEATED, Reason.NEAR_TWIN, Reason.UNFINISHED),
    *(Reason.GUARD_BAND, Reason.FORGED_TIME, Reason.PROTOCOL, Reason.TOO_LARGE, Reason.PRINTED, Reason.DISK),
)
"""Why the standard harness refuses answers whose numbers may be right."""
SANDBOX = "There is no network, and what a run writes to files is gone after it."
RANK = (
    "A result shares the rank above unless it is slower than the first there by more than the 95 % margin of their "
    "difference. One whose interval reaches further than 5 % ranks by its upper end."
)
PROVIDER = (
    "A provider may isolate ranked runs itself, where our sandbox cannot: marked `isolation: provider`."
)
DUEL = "A new first place must be faster than the one before when both are measured in turns."


def rules_of(board: Leaderboard, task: Task, packages: str = "") -> list[tuple[str, str]]:
    """Return a leaderboard's rules as names and sentences."""
    weighted = " Benchmarks have weights." if task.weights else ""
    partial = " A benchmark that fails counts 0." if task.partial else ""
    cpu = cpu_rule(board.cpu_times)
    is_own = board.harness is HarnessKind.OWN
    size, share, prepare = board.max_file_bytes, task.own_share, None if is_own else task.prepare_timeout
    rules = {
        "Score": f"{SCORES[task.ranking_by]}{weighted}{partial}",
        "Rank": f"{RANK} {cpu[0].upper()}{cpu[1:]}.",
        "Proof": _proof(board),
        "Isolation": board.provider_isolation and PROVIDER,
        "Duel": board.duel and DUEL,
        "Judge": "The task’s own harness judges." if is_own else "KernelCup’s harness judges.",
        "Code": code_rule(board),
        "Afterwards": board.deadline is not None and after_rule(board.after_deadline),
        "Names": board.pseudonymous and "Members see each other under pseudonyms.",
        "Access": board.visibility is Visibility.CLOSED and "Only members see this leaderboard.",
        "Size": size is not None and f"A submission has at most {size:,} bytes.",
        "Review": board.review_tags and "A person reviews results with certain patterns before they count.",
        "GPUs": task.multi_gpu and "A submission may use several GPUs.",
        "Prepare": prepare is not None and prepare_text(prepare),
        "Own kernels": share is not None and f"They have to take {share:.0%} of the time of all kernels.",
        "Packages": packages,
        "Libraries": ", ".join(task.libraries),
    }
    return [(name, str(text)) for name, text in rules.items() if text]


def _proof(board: Leaderboard) -> str:
    if board.trust is TrustRule.WITNESSED:
        return "Only witnessed times rank: those that the GPU’s hardware counters confirm. Others are listed."
    if board.trust is TrustRule.REPLAYED:
        return "Only replayed times rank. Times by the wall clock are listed, but not ranked."
    return "All times rank. Those by the wall clock, which include the overhead of a call, are marked."


def prepare_text(limit_s: int) -> str:
    """Return what a submission may define beside `custom_kernel`."""
    what = (
        "A submission in Python may define prepare(**case): it is called once for each case, without the seed"
    )
    return (
        f"{what}, before it gets an input of the case, and may take {limit_s} s. No ranked time contains it."
    )


def answers_text(task: Task) -> str:
    """Return the rule for the form of answers, which the standard harness applies if there is a reference."""
    if task.harness is not HarnessKind.STANDARD:
        return ""
    usual = ["whole numbers that hold all of its values", "floating-point numbers of 16 bits or more"]
    dtypes = " or ".join(["the reference's", *(usual if task.dtypes is None else task.dtypes)])
    return f"{FORM}; dtype: {dtypes}"


def refusals(task: Task, harness: HarnessKind) -> dict[str, str]:
    """Return what a submission must not do, by the reason that a report then has."""
    if harness is HarnessKind.OWN:
        return {"network": SANDBOX}
    allowed = {Reason.ALIASED: task.aliasing, Reason.NEAR_TWIN: not task.near_twins}
    return {"network": SANDBOX} | {
        fault.value: REASONS[fault] for fault in FAULTS if not allowed.get(fault, False)
    }
