"""Calls: their rows, comparisons, judged claims and charts."""
