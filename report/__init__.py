# SPDX-License-Identifier: Apache-2.0
"""Turns result tables into plots, judged claims and one self-contained HTML page."""
