"""A task as JSON."""

from __future__ import annotations

from kernelcup.domain import Task


def without_hidden(task: Task) -> dict[str, object]:
    """Return a task as JSON, hidden cases as their number."""
    body = dict(task.to_json())
    body["hidden_tests"] = len(task.hidden_tests)
    body["hidden_benchmarks"] = len(task.hidden_benchmarks)
    body["data"] = {name: {"bytes": size, "sha256": sum_} for name, (size, sum_) in task.data_sums().items()}
    # The traffic of a hidden case would reveal its size.
    del body["hidden_work"], body["reference_s"]
    return {**body, "content_hash": task.content_hash}
