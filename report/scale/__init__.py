"""Many clients: its tables, its pictures, the judged claims and its page."""
