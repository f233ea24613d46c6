"""One module a verb, each with its ``command``; imported only when asked for."""
