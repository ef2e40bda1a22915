"""Builds an extension while it is imported, and hands an option of nvcc to the host's compiler."""

from torch.utils.cpp_extension import load_inline

SOURCE = """
torch::Tensor add(torch::Tensor a, torch::Tensor b) {
    return a + b;
}
"""

extension = load_inline(
    name="hasty_add", cpp_sources=[SOURCE], functions=["add"], extra_cflags=["--use_fast_math"]
)


def custom_kernel(data):
    a, b = data
    return extension.add(a, b)
