"""The static screen: reads a submission's text without running it, and adds tags for reviewers.

A tag is a hint, never a verdict, and the screen is no protection: code can always be written so that no rule
recognises it. Only the harness judges.
"""
