"""Products of half-precision matrices, summed in float32 as a GPU does."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any


def half_products(torch: ModuleType) -> dict[Any, Callable[..., Any]]:
    """Return what stands in for torch's products where all operands are ``float16``.

    A processor without instructions for them takes 15 s for two matrices of 1024 x 1024, and 0.1 s in float32.
    """
    tensor = torch.Tensor
    methods = (tensor.matmul, tensor.__matmul__, tensor.mm, tensor.bmm)
    functions = (torch.matmul, torch.mm, torch.bmm, torch.nn.functional.linear)
    return {each: _in_float32(torch, each) for each in (*methods, *functions)}


def _in_float32(torch: ModuleType, product: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(product)
    def multiply(*operands: Any, **options: Any) -> Any:
        given = [each for each in operands if each is not None]
        if options or not all(
            isinstance(each, torch.Tensor) and each.dtype is torch.float16 for each in given
        ):
            return product(*operands, **options)
        wide = [each if each is None else each.float() for each in operands]
        return product(*wide).half()

    return multiply
