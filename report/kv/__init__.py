# SPDX-License-Identifier: Apache-2.0
"""The key-value store: its rows, comparisons, judged claims and goals, and charts."""
