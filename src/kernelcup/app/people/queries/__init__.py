"""Users, their identities, sign-ins and tokens, and the audit log."""
