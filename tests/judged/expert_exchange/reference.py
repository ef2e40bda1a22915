import torch
import torch.distributed as dist
from task import Config, input_t, output_t


class RankData:
    def __init__(self, cfg, rank, seed):
        device = torch.device(f"cuda:{rank}")
        gen = torch.Generator(device=device)
        gen.manual_seed(seed + rank)
        num_tokens = int(torch.randint(1, cfg.max_num_tokens, [1], generator=gen, device=device).item())
        rows = [torch.randperm(cfg.num_experts, generator=gen, device=device) for _ in range(num_tokens)]
        self.num_tokens = num_tokens
        self.indices = torch.stack(rows)[:, : cfg.experts_per_token].to(torch.int32)
        self.weights = torch.rand(num_tokens, cfg.experts_per_token, generator=gen, device=device)
        self.x = torch.randn(num_tokens, cfg.hidden_dim, generator=gen, device=device).to(cfg.dtype)


def generate_input(num_experts, experts_per_token, hidden_dim, max_num_tokens, seed, rank, world_size):
    cfg = Config(num_experts, experts_per_token, hidden_dim, max_num_tokens)
    return cfg, RankData(cfg, rank, seed), rank, world_size


class Exchange:
    """Sends rows to other ranks and takes theirs, each with a number."""

    def __init__(self, world_size):
        self.world_size = world_size

    def send(self, rows, counts):
        counts_there = torch.empty_like(counts)
        dist.all_to_all_single(counts_there, counts)
        there, here = counts_there.tolist(), counts.tolist()
        received = torch.empty((sum(there), *rows.shape[1:]), dtype=rows.dtype, device=rows.device)
        dist.all_to_all_single(received, rows, there, here)
        return received, counts_there


def ref_kernel(data: input_t) -> output_t:
    cfg, rank_data, rank, world_size = data
    device = torch.device(f"cuda:{rank}")
    exchange = Exchange(world_size)
    owners = rank_data.indices.flatten().long() // (cfg.num_experts // world_size)
    order = owners.argsort(stable=True)
    tokens = order // cfg.experts_per_token
    counts = torch.bincount(owners, minlength=world_size)
    received, counts_there = exchange.send(rank_data.x[tokens], counts)
    done = received * (1 + rank)
    back, _ = exchange.send(done, counts_there)
    weights = rank_data.weights.flatten()[order, None]
    output = torch.zeros(rank_data.num_tokens, cfg.hidden_dim, device=device)
    output.index_add_(0, tokens, back.float() * weights)
    return output.to(cfg.dtype)


def check_implementation(data: input_t, output: output_t):
    expected = ref_kernel(data)
    if output.device != expected.device:
        return False, f"output is on {output.device}, expected {expected.device}"
    right = torch.allclose(output, expected, rtol=1e-2, atol=5e-3)
    return right, "" if right else f"rank {data[2]} differs from the reference"
