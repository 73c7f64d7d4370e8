"""Connecting: its rows, comparisons, judged claims and charts."""
