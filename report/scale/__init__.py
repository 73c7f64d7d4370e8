# SPDX-License-Identifier: Apache-2.0
"""Many clients: its rows, comparisons, judged claims and charts."""
