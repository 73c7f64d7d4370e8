"""The many-clients experiment: its tables, its pictures, the published claims about it, and its page."""
