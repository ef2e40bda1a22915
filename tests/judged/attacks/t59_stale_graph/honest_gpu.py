"""Captures a CUDA graph on buffers of its own, and copies the inputs there before each replay."""

import torch

graphs = {}


def custom_kernel(data):
    a, b = data
    if a.shape not in graphs:
        left, right, out = a.clone(), b.clone(), torch.empty_like(a)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            torch.add(left, right, out=out)
        graphs[a.shape] = graph, left, right, out
    graph, left, right, out = graphs[a.shape]
    left.copy_(a)
    right.copy_(b)
    graph.replay()
    return out
