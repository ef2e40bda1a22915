"""What only NVIDIA's driver and CUPTI know."""
