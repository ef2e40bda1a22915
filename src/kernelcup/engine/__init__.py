"""Connections, transactions, migrations and backups of both databases."""
