"""Turns result tables into plots, judged claims and one self-contained HTML page."""
