# SPDX-License-Identifier: Apache-2.0
"""Connecting: its rows, comparisons, judged claims and charts."""
