# SPDX-License-Identifier: Apache-2.0
"""Prints the names of the RDMA devices, as a Python program does that has no bindings."""

import ctypes

verbs = ctypes.CDLL("libibverbs.so.1", use_errno=True)
verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
verbs.ibv_get_device_name.restype = ctypes.c_char_p
verbs.ibv_get_device_name.argtypes = [ctypes.c_void_p]
verbs.ibv_open_device.restype = ctypes.c_void_p
verbs.ibv_open_device.argtypes = [ctypes.c_void_p]
verbs.ibv_close_device.argtypes = [ctypes.c_void_p]

count = ctypes.c_int()
devices = verbs.ibv_get_device_list(ctypes.byref(count))
for device in devices[: count.value]:
    context = verbs.ibv_open_device(device)
    assert context, f"ibv_open_device: errno {ctypes.get_errno()}"
    print(verbs.ibv_get_device_name(device).decode())
    assert verbs.ibv_close_device(context) == 0
verbs.ibv_free_device_list(devices)
