"""Words, shapes and first wrong elements for people. They are made once a verdict stands, and cannot change it."""
