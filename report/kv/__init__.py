"""The key-value store: its rows, comparisons, judged claims and goals, and charts."""
