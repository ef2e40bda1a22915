import torch
from problem import Problem


class relu(Problem):
    """ReLU of a matrix."""

    def __init__(self):
        super().__init__(name="relu")

    def reference_solution(self, input_matrix):
        with torch.no_grad():
            return torch.relu(input_matrix)

    def generate_test_cases(self, dtype):
        return [
            {
                "name": f"{m}x{n}",
                "dims": (m, n),
                "create_inputs": lambda m=m, n=n: (torch.randn((m, n), dtype=dtype),),
            }
            for m, n in [(16, 16), (33, 7), (64, 128)]
        ]

    def verify_result(self, expected_output, actual_output, dtype):
        return torch.allclose(actual_output, expected_output), {}
