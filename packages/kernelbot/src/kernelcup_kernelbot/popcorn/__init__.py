"""The routes for the existing client ``popcorn-cli``, at the root of the service.

Thin adapters over the same services as ``/api/v1``: they translate addresses, words and shapes, and
have no rule of their own.
"""
