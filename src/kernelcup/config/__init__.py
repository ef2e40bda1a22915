"""Configuration: `kernelcup.toml`, sign-in providers, and what this machine has."""
