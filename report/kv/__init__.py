"""The key-value store: its tables, its pictures, the judged claims and goals, and its page."""
