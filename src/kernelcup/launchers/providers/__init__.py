"""Launchers for machines that a provider starts for each job: GitHub Actions and Modal."""

from __future__ import annotations
