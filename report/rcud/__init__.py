"""RC against UD: its tables, the comparison, the judged claims, its pictures and its page."""
