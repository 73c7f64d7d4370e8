"""Calls: their tables, their pictures, the published claims about them, and their page."""
