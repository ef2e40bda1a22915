import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    cfg, rank_data, _, _ = data
    return torch.zeros(rank_data.num_tokens, cfg.hidden_dim, dtype=cfg.dtype)
