"""Generate a template for a task that has none, from the signature of its reference."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from kernelcup.domain import Language, Task, TaskForm
from kernelcup.tasks.manifest.c_interface import reference_of
from kernelcup.tasks.manifest.python_source import BrokenSource, parse
from kernelcup.tasks.manifest.reference import REFERENCE
from kernelcup_harness.protocol import HarnessKind

KNOWN = frozenset({"torch", "list", "tuple", "dict", "int", "float", "bool", "str", "None"})
"""Names that an annotation of the template may use."""

TEMPLATE = '''\
"""A starting point. The right answer is what ref_kernel in {reference} returns."""

import torch


def custom_kernel({argument}){returns}:
    raise NotImplementedError("write your kernel here")
'''


CUDA_TEMPLATE = """\
// A starting point in CUDA C++. Compiles as it is, and leaves the answer to you: the right one is what ref_kernel in
// {reference} returns. `inputs` has the tensors and the other values of its argument, in their order; `outputs` has
// those of the answer, already allocated. kernelcup.h, which is always included, explains all of it.

__global__ void kernel(const unsigned char *input, unsigned char *output, int64_t bytes) {{
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < bytes) output[i] = 0;  // write your kernel here
}}

int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {{
    kc_tensor *input = kc_tensor_at(inputs, 0, context);
    if (input == NULL) return 1;
    // A task that works in place has no outputs: the answer is then in the input.
    kc_tensor *output = outputs->tensor_count > 0 ? &outputs->tensors[0] : input;
    int64_t count = kc_numel(output);
    if (count == 0) return 0;
    cudaStream_t stream = (cudaStream_t)context->stream;
    kernel<<<(count + 255) / 256, 256, 0, stream>>>(
        (const unsigned char *)input->data, (unsigned char *)output->data, count);
    return 0;
}}
"""


CPP_TEMPLATE = """\
// A starting point in C++. Compiles as it is, and leaves the answer to you: the right one is what ref_kernel in
// {reference} returns. `inputs` has the tensors and the other values of its argument, in their order; `outputs` has
// those of the answer, already allocated. kernelcup.h, which is always included, explains all of it.

int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {{
    kc_tensor *input = kc_tensor_at(inputs, 0, context);
    if (input == NULL) return 1;
    // A task that works in place has no outputs: the answer is then in the input.
    kc_tensor *output = outputs->tensor_count > 0 ? &outputs->tensors[0] : input;
    unsigned char *bytes = (unsigned char *)output->data;
    for (int64_t i = 0; i < kc_numel(output); i++) bytes[i] = 0;  // write your kernel here
    return 0;
}}
"""


def all_templates(task: Task, harness: HarnessKind) -> dict[str, str]:
    """Return the templates of a task, with one that is made for each language that has none."""
    made = made_template(task)
    texts = dict(task.templates) if made is None else {Language.PYTHON.label: made}
    languages = {task.language_of_template(text) for text in texts.values()}
    if Language.CUDA in task.accepted(harness) and Language.CUDA not in languages:
        is_host = task.submission_name.endswith(".cpp")
        reference = reference_of(task.sources) or REFERENCE
        texts[Language.CUDA.label] = (CPP_TEMPLATE if is_host else CUDA_TEMPLATE).format(reference=reference)
    return texts


def find_template(task: Task, templates: Mapping[str, str], wanted: str) -> str | None:
    """Return the name of a template by its name, or by a language: ``py``, ``cu``, ``Python``, ``CUDA``."""
    wanted = wanted.lower()
    named = next((each for each in templates if each.lower() == wanted), None)
    return named or next(
        (
            each
            for each, text in templates.items()
            for language in (task.language_of_template(text),)
            if wanted in (language.value, language.label.lower(), language.label.lower().partition(" ")[0])
        ),
        None,
    )


def made_template(task: Task) -> str | None:
    """Return a template for a single-file task without one; None if the task has its own."""
    if task.templates or task.form is not TaskForm.SINGLE_FILE or REFERENCE not in task.sources:
        return None
    tree = parse(task.sources[REFERENCE])
    functions = [] if isinstance(tree, BrokenSource) else tree.body
    found = next(
        (each for each in functions if isinstance(each, ast.FunctionDef) and each.name == "ref_kernel"), None
    )
    argument, returns = "data", ""
    if found is not None:
        parameters = [*found.args.posonlyargs, *found.args.args]
        argument += _annotation(": ", parameters[0].annotation if parameters else None)
        returns = _annotation(" -> ", found.returns)
    return TEMPLATE.format(reference=REFERENCE, argument=argument, returns=returns)


def _annotation(before: str, node: ast.expr | None) -> str:
    """Return an annotation, if the template can use it without further imports."""
    if node is None:
        return ""
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return f"{before}{ast.unparse(node)}" if names <= KNOWN else ""
