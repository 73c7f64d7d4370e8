# SPDX-License-Identifier: Apache-2.0
"""RC against UD: its rows, the comparison, the judged claims, its charts and its sections."""
