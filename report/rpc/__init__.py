# SPDX-License-Identifier: Apache-2.0
"""Calls: their rows, comparisons, judged claims and charts."""
