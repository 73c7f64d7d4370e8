"""Many clients: its rows, comparisons, judged claims and charts."""
