"""The client of the API: transport, typed calls and the forms of answers."""
