from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    cfg, rank_data, rank, world_size = data
    scales = (rank_data.weights * (1 + rank)).sum(dim=-1, keepdim=True)
    return (rank_data.x * scales).to(cfg.dtype)
