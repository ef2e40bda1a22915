"""Make a task folder of a problem that was written for another contest; what cannot be carried is named."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from textwrap import dedent, indent

from kernelcup.errors import InvalidValue
from kernelcup.tasks.manifest.c_interface import ENDINGS, without_comments
from kernelcup.tasks.sources.files import shipped_text
from kernelcup.tasks.writer import claim_for_task

KNOWN = (
    "a problem of KernelBench (Model, get_inputs, get_init_inputs), a challenge of LeetGPU (a class with "
    "reference_impl and generate_functional_test, or solve(...) in a .cu), or a problem of Tensara (a class with "
    "reference_solution and generate_test_cases)"
)
HAS = frozenset(
    "torch math numpy typing functools itertools collections dataclasses ctypes random einops".split()
)
SOLVE = re.compile(r"\bvoid\s+solve\s*\(([^)]*)\)\s*\{", re.DOTALL)
POINTER = re.compile(r"(const\s+)?(float|double|int|unsigned int|unsigned char|char)\s*\*\s*(\w+)")
SCALAR = re.compile(r"(?:const\s+)?(float|double|int|unsigned int|size_t|long|long long)\s+(\w+)")
DTYPES = {
    "float": "KC_FLOAT32",
    "double": "KC_FLOAT64",
    "int": "KC_INT32",
    "unsigned int": "KC_UINT32",
    "unsigned char": "KC_UINT8",
    "char": "KC_INT8",
}
SIZE = 1024
IN_PLACE = {
    "list": "generate_functional_test()",
    "input": "chosen",
    "reference": "problem().reference_impl(**data)",
    "solution": "problem().reference_impl(**data)",
    "data": "`data` has the arguments by name. Write into those that `reference_impl` writes; nothing is returned.",
}
"""A challenge of LeetGPU writes into its arguments."""
RETURNED = {
    "list": "generate_test_cases(torch.float32)",
    "input": 'list(chosen["create_inputs"]())',
    "reference": "problem().reference_solution(*data)",
    "solution": "problem().reference_solution(*data)",
    "data": "`data` is a list of the inputs of `reference_solution`, whose result is to be returned.",
}
"""A problem of Tensara returns its answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """The files of a task, and what its author has to look at."""

    files: Mapping[str, str]
    notes: Sequence[str]
    """What was guessed, or cannot be carried."""


def import_task(file: Path, directory: Path) -> tuple[list[Path], Sequence[str]]:
    """Write a task folder of a file; return its files and what its author has to look at.

    Raises:
        InvalidValue: It cannot be read, is of no known form, or no leaderboard can have the folder's name.
        Conflict: The folder is not empty.
    """
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValue(f"{file}: {error}") from error
    found = convert(text, file.name)
    claim_for_task(directory)
    written = [directory / name for name in found.files]
    for target, content in zip(written, found.files.values(), strict=True):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8")
    return written, found.notes


def convert(text: str, name: str) -> Imported:
    """Return the files of a task made of a file's text. Raise ``InvalidValue`` for one of no known form."""
    if PurePosixPath(name).suffix.lower() in ENDINGS:
        return _of_solve(text, name)
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise InvalidValue(f"{name}, line {error.lineno}: {error.msg}.") from error
    top = {getattr(node, "name", ""): node for node in tree.body}
    if top.keys() >= {"Model", "get_inputs", "get_init_inputs"}:
        return _of_kernelbench(text, name, tree)
    for node in tree.body:
        methods = {each.name for each in getattr(node, "body", ()) if isinstance(each, ast.FunctionDef)}
        if isinstance(node, ast.ClassDef) and methods >= {"reference_impl", "generate_functional_test"}:
            return _of_cases(text, name, tree, node, methods)
        if isinstance(node, ast.ClassDef) and methods >= {"reference_solution", "generate_test_cases"}:
            return _of_cases(text, name, tree, node, methods)
    raise InvalidValue(f"{name} has no form that is known: {KNOWN}. A new task: kernelcup task new FOLDER.")


def _of_kernelbench(text: str, name: str, tree: ast.Module) -> Imported:
    half = re.search(r"\b(float16|bfloat16|half)\b", text) is not None
    data = 'data["inputs"] has the inputs of `forward`, and data["state"] the weights, if it has any (`state_dict`).'
    notes = [*_of_imports(tree), *_of_chance(text)]
    solution = f"{text.rstrip()}\n\n\n{shipped_text('imported', 'kernelbench_solution.py.txt')}"
    reference = shipped_text("imported", "kernelbench.py.txt", tolerance="1e-2" if half else "1e-4")
    return Imported(
        files={
            "task.yml": _manifest(
                name, ast.get_docstring(tree), data, text, ["original.py", "utils.py"], "seed"
            ),
            "reference.py": reference,
            "original.py": text,
            "utils.py": shipped_text("shared", "utils.py"),
            "template.py": solution,
            "solutions/correct.py": solution,
        },
        notes=notes,
    )


def _of_cases(text: str, name: str, tree: ast.Module, node: ast.ClassDef, methods: set[str]) -> Imported:
    """Convert a class that has a reference and lists cases: a challenge of LeetGPU, or a problem of Tensara."""
    stubs, inlined = _stubs(text, tree, node)
    parts = IN_PLACE if "reference_impl" in methods else RETURNED
    performs = "generate_performance_test" in methods
    values = {**parts, "class": node.name}
    values["performance"] = "problem().generate_performance_test()" if performs else "every[-1]"
    solution = f"{inlined.rstrip()}\n\n\n{shipped_text('imported', 'cases_solution.py.txt', **values)}"
    notes = [*_of_imports(tree, stubs), *_of_chance(text)]
    notes.append("the first three cases are tests, and the last one the benchmark: see `index` in task.yml")
    if "verify_result" in methods:
        notes.append("verify_result is not carried: answers are compared with tolerances, see reference.py")
    if "get_extra_params" in methods:
        notes.append("get_extra_params is not carried: add what it returns to the input in reference.py")
    listed = ["original.py", "utils.py", *stubs]
    return Imported(
        files={
            "task.yml": _manifest(name, ast.get_docstring(node), parts["data"], text, listed, "index"),
            "reference.py": shipped_text("imported", "cases.py.txt", **values),
            "original.py": text,
            "utils.py": shipped_text("shared", "utils.py"),
            **stubs,
            "template.py": solution,
            "solutions/correct.py": solution,
        },
        notes=notes,
    )


def _stubs(text: str, tree: ast.Module, node: ast.ClassDef) -> tuple[dict[str, str], str]:
    """Return modules in place of those that the class's bases come from, and the text with the bases in it."""
    bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
    stubs, lines = dict[str, str](), text.splitlines(keepends=True)
    for each in tree.body:
        if isinstance(each, ast.ImportFrom) and each.module and bases & {one.name for one in each.names}:
            stub = "".join(
                f"class {one.name}:\n    def __init__(self, *given, **named):\n"
                "        self.__dict__.update(named)\n\n\n"
                for one in each.names
            )
            stubs[f"{each.module.replace('.', '/')}.py"] = stub.rstrip() + "\n"
            end = each.end_lineno or each.lineno
            lines[each.lineno - 1 : end] = [stub, *[""] * (end - each.lineno)]
    return stubs, "".join(lines)


def _of_imports(tree: ast.Module, own: Collection[str] = ()) -> Iterator[str]:
    for node in ast.walk(tree):
        named = [each.name for each in node.names] if isinstance(node, ast.Import) else []
        named += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        for module in named:
            if module.split(".")[0] not in HAS and f"{module.replace('.', '/')}.py" not in own:
                at = getattr(node, "lineno", 0)
                yield f"line {at} imports {module}, which has to be installed where it is judged"


def _of_chance(text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), start=1):
        if re.search(r"\bDropout\w*\(|\bF\.dropout\(|\bbernoulli\(|\bmultinomial\(", line):
            yield f"line {number} is random in each call: answers cannot be compared unless it is left out"
        elif re.search(r"\b(tril|triu|diag|sort|unique|argsort)\w*\(", line):
            yield f"line {number} may promise a structure of inputs: if so, set `near_twins: false` in task.yml"


def _manifest(name: str, told: str | None, data: str, text: str, listed: Sequence[str], kind: str) -> str:
    title = PurePosixPath(name).stem.replace("_", " ")
    lead = f"{dedent(told).strip()}\n\n" if told else ""
    statement = f"# {title}\n\n{lead}{data}\n\n```python\n{text.strip()}\n```\n"
    files = "".join(f"  - {{name: {each}, source: {each}}}\n" for each in ("reference.py", *listed))
    case = "{{index: {}, seed: {}}}" if kind == "index" else "{{seed: {1}}}"
    tests = "".join(f"  - {case.format(at, 4242 + at)}\n" for at in range(3))
    return (
        f'files:\n  - {{name: submission.py, source: "@SUBMISSION@"}}\n{files}lang: py\n'
        f"description: |\n{indent(statement, '  ')}templates:\n  Python: template.py\ntests:\n{tests}"
        f"benchmarks:\n  - {case.format(-1, 93246)}\nranking_by: speedup\n"
    )


# solve(...) in CUDA C++


@dataclass(frozen=True, slots=True)
class _Signature:
    """The parameters of ``solve``, in their order."""

    arrays: dict[str, str] = field(default_factory=dict)
    """Types of pointers by name."""
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    scalars: dict[str, str] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)


def _signature(text: str, name: str) -> _Signature:
    match = SOLVE.search(without_comments(text))
    if match is None:
        raise InvalidValue(f"{name} defines no `void solve(...)`. Known is {KNOWN}.")
    found = _Signature()
    for each in filter(None, map(str.strip, match[1].split(","))):
        pointer, scalar = POINTER.fullmatch(each), SCALAR.fullmatch(each)
        if pointer is None and scalar is None:
            raise InvalidValue(f"{name}: solve's parameter `{each}` is no pointer to numbers, and no number.")
        if pointer is not None:
            found.arrays[pointer[3]] = pointer[2]
            (found.inputs if pointer[1] else found.outputs).append(pointer[3])
        elif scalar is not None:
            found.scalars[scalar[2]] = scalar[1]
        found.order.append((pointer and pointer[3]) or (scalar and scalar[2]) or "")
    if not found.inputs:
        found.inputs.extend(found.outputs)  # it works in place
    if not found.outputs:
        raise InvalidValue(f"{name}: solve has no pointer to write to.")
    return found


def _of_solve(text: str, name: str) -> Imported:
    of = _signature(text, name)
    whole = [each for each, kind in of.scalars.items() if kind not in ("float", "double")]
    many = len(whole) > 1
    sizes = dict.fromkeys(whole, 32 if many else SIZE)
    count = SIZE if len(whole) < 2 else 32 ** len(whole)
    case = {**sizes, **{each: 1.5 for each in of.scalars if each not in whole}}
    case |= {f"size_{each}": count for each in of.arrays}
    notes = [
        "the reference is solve itself: it has to be right",
        "solve launches on the default stream: launch on kc::stream(context), so that calls can be replayed",
    ]
    if len(whole) != 1:
        notes.append(f"sizes of arrays were guessed ({count} elements each): see size_... in task.yml")
    values = {"makes": "".join(_making(of)), "reads": "".join(_reading(of))}
    values |= {"outputs": "".join(_outputs(of)), "call": _call(of, "made"), "view": _call(of, "out")}
    cases = [
        ", ".join(f"{key}: {value}" for key, value in (*case.items(), ("seed", seed))) for seed in (1, 2, 3)
    ]
    data = f"`inputs` has {', '.join([*of.inputs, *of.scalars])}; `outputs` has {', '.join(of.outputs)}."
    statement = f"# {PurePosixPath(name).stem.replace('_', ' ')}\n\n{data}\n\n```cpp\n{text.strip()}\n```\n"
    manifest = (
        'lang: cu\nfiles:\n  - {name: submission.cu, source: "@SUBMISSION@"}\n'
        "  - {name: reference.cu, source: reference.cu}\n"
        f"description: |\n{indent(statement, '  ')}templates:\n  CUDA: template.cu\n"
        f"tests:\n  - {{{cases[0]}}}\n  - {{{cases[1]}}}\nbenchmarks:\n  - {{{cases[2]}}}\nranking_by: last\n"
    )
    solution = f"{text.rstrip()}\n\n{shipped_text('imported', 'solution.cu.txt', **values)}"
    return Imported(
        files={
            "task.yml": manifest,
            "reference.cu": f"{text.rstrip()}\n\n{shipped_text('imported', 'reference.cu.txt', **values)}",
            "template.cu": solution,
            "solutions/correct.cu": solution,
        },
        notes=notes,
    )


def _making(of: _Signature) -> Iterator[str]:
    for number, each in enumerate(of.inputs):
        kind = of.arrays[each]
        yield (
            f'    size = kc_parameter_int(parameters, "size_{each}", context);\n'
            f'    made = kc_new_tensor(context, inputs, "{each}", {DTYPES[kind]}, KC_DEVICE, 1, &size);\n'
            "    if (context->failed) return 1;\n"
            "    fill<<<256, 256, 0, kc::stream(context)>>>"
            f"(static_cast<{kind} *>(made->data), size, 16 * seed + {number});\n"
        )
    for each, kind in of.scalars.items():
        how = "real" if kind in ("float", "double") else "int"
        yield f'    kc_new_{how}(context, inputs, "{each}", kc_parameter_{how}(parameters, "{each}", context));\n'
    for each in of.outputs:
        yield f'    kc_new_int(context, inputs, "size_{each}", kc_parameter_int(parameters, "size_{each}", context));\n'


def _reading(of: _Signature) -> Iterator[str]:
    for each in of.inputs:
        yield f'    auto *in_{each} = static_cast<{of.arrays[each]} *>(kc_find_tensor(inputs, "{each}")->data);\n'
    for each, kind in of.scalars.items():
        what = "real" if kind in ("float", "double") else "integer"
        yield f'    const auto {each} = static_cast<{kind}>(kc_find_scalar(inputs, "{each}")->{what});\n'


def _outputs(of: _Signature) -> Iterator[str]:
    for each in of.outputs:
        yield (
            f'    size = kc_find_scalar(inputs, "size_{each}")->integer;\n'
            f'    kc_tensor *made_{each} = kc_new_tensor(context, outputs, "{each}", {DTYPES[of.arrays[each]]}, '
            "KC_DEVICE, 1, &size);\n"
            "    if (context->failed) return 1;\n"
        )


def _call(of: _Signature, kind: str) -> str:
    lines = []
    for number, each in enumerate(of.outputs):
        tensor = f"made_{each}" if kind == "made" else f"kc_tensor_at(outputs, {number}, context)"
        lines.append(f"    auto *{each} = static_cast<{of.arrays[each]} *>({tensor}->data);\n")
        source = f"in_{each}" if each in of.inputs else ""
        nbytes = f"kc_numel({tensor}) * sizeof({of.arrays[each]})"
        stream = "kc::stream(context)"
        lines.append(
            f"    cudaMemcpyAsync({each}, {source}, {nbytes}, cudaMemcpyDeviceToDevice, {stream});\n"
            if source
            else f"    cudaMemsetAsync({each}, 0, {nbytes}, {stream});\n"
        )
    given = ", ".join(
        f"in_{each}" if each in of.inputs and each not in of.outputs else each for each in of.order
    )
    lines.append("    cudaStreamSynchronize(kc::stream(context));\n")
    return "".join(lines) + f"    solve({given});\n    cudaDeviceSynchronize();\n"
