"""Calls: their tables, their pictures, the judged claims and their page."""
