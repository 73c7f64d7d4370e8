# SPDX-License-Identifier: Apache-2.0
"""The version of the distribution. `verbena_rpc` has the client of RPC."""

from importlib.metadata import version

__version__ = version("verbena")
