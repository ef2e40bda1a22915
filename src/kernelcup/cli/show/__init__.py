"""What a terminal shows: reports, tables, texts without control characters."""
