"""NVIDIA's GPUs: all that calls CUDA's driver, NVML or CUPTI."""
