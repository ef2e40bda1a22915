"""Slash commands: one module for each group of users and each longer dialog."""
