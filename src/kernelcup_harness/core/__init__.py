"""The judge: one submission from its first call to its verdict. It imports ``wire`` and ``protocol`` only."""
