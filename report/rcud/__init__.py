"""RC against UD: its tables, the comparison of both, the published claims about it, its pictures and its page."""
