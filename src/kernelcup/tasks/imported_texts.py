"""Texts of the files that :mod:`kernelcup.tasks.imports` writes; words between ``@`` are filled in."""

from __future__ import annotations

KERNELBENCH = '''"""Calls the problem of KernelBench in original.py, with its own inputs and weights for each seed."""

from functools import cache

import torch
from original import Model, get_init_inputs, get_inputs
from utils import make_match_reference

DEVICE = "cuda"


def moved(value):
    if isinstance(value, torch.Tensor):
        return value.to(DEVICE)
    return type(value)(map(moved, value)) if isinstance(value, (list, tuple)) else value


def made():
    given = get_init_inputs()
    return Model(**given) if isinstance(given, dict) else Model(*given)


@cache
def structure():
    return made().to(DEVICE)


def generate_input(seed):
    torch.manual_seed(seed)
    state = {name: moved(each) for name, each in made().state_dict().items()}
    data = {"inputs": [moved(each) for each in get_inputs()]}
    return {**data, "state": state} if state else data


def ref_kernel(data):
    model = structure()
    model.load_state_dict(data.get("state", {}))
    with torch.no_grad():
        return model(*data["inputs"])


check_implementation = make_match_reference(ref_kernel, rtol=@TOLERANCE@, atol=@TOLERANCE@)
'''

KERNELBENCH_SOLUTION = """

from functools import cache


@cache
def structure():
    given = get_init_inputs()
    return (Model(**given) if isinstance(given, dict) else Model(*given)).to("cuda")


def custom_kernel(data):
    model = structure()
    model.load_state_dict(data.get("state", {}))
    with torch.no_grad():
        return model(*data["inputs"])
"""

CASES = '''"""Calls the problem in original.py: its cases, made again for each seed, and its reference."""

import torch
from original import @CLASS@
from utils import make_match_reference

DEVICE = "cuda"


def problem():
    return @CLASS@()


def moved(value):
    if isinstance(value, torch.Tensor):
        return value.to(DEVICE)
    if isinstance(value, dict):
        return {name: moved(each) for name, each in value.items()}
    return type(value)(map(moved, value)) if isinstance(value, (list, tuple)) else value


def generate_input(index, seed):
    torch.manual_seed(seed)
    every = problem().@LIST@
    chosen = @PERFORMANCE@ if index < 0 else every[index % len(every)]
    return moved(@INPUT@)


def ref_kernel(data):
    with torch.no_grad():
        return @REFERENCE@


def answered(data):
    answer = ref_kernel(data)
    return data if answer is None else answer


check_implementation = make_match_reference(answered, rtol=1e-4, atol=1e-4)
'''

CASES_SOLUTION = """

def custom_kernel(data):
    problem = @CLASS@
    with torch.no_grad():
        return @SOLUTION@
"""

IN_PLACE = {
    "LIST": "generate_functional_test()",
    "INPUT": "chosen",
    "REFERENCE": "problem().reference_impl(**data)",
    "SOLUTION": "problem().reference_impl(**data)",
    "DATA": "`data` has the arguments by name. Write into those that `reference_impl` writes; nothing is returned.",
}
"""A challenge of LeetGPU writes into its arguments."""

RETURNED = {
    "LIST": "generate_test_cases(torch.float32)",
    "INPUT": 'list(chosen["create_inputs"]())',
    "REFERENCE": "problem().reference_solution(*data)",
    "SOLUTION": "problem().reference_solution(*data)",
    "DATA": "`data` is a list of the inputs of `reference_solution`, whose result is to be returned.",
}
"""A problem of Tensara returns its answer."""

CUDA_REFERENCE = """
// Inputs have values in [-1, 1), or whole numbers below 100.
template <typename T> __global__ void fill(T *values, int64_t size, uint64_t seed) {
    for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < size; i += int64_t(gridDim.x) * blockDim.x) {
        uint64_t x = seed + uint64_t(i + 1) * 0x9e3779b97f4a7c15ull;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
        x = (x ^ (x >> 31)) >> 40;
        values[i] = T(0.5) == T(0) ? T(x % 100) : T(x / 8388608.0 - 1.0);
    }
}

int generate_input(const kc_case *parameters, uint64_t seed, kc_args *inputs, kc_context *context) {
    int64_t size = 0;
    kc_tensor *made = nullptr;
@MAKES@    return context->failed;
}

int ref_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    int64_t size = 0;
@READS@@OUTPUTS@@CALL@    return 0;
}
"""

CUDA_SOLUTION = """
int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
@READS@@VIEW@    return 0;
}
"""
