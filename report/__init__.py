"""Tables of the RC against UD experiment to plots, judged claims and one self-contained HTML page."""
