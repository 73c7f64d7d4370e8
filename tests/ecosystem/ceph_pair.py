#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A Ceph monitor and its clients over Ceph's RDMA messenger (ms_type async+rdma).

usage: ceph_pair.py monitor FOLDER DEVICE ADDRESS PORT
       ceph_pair.py client FOLDER DEVICE ADDRESS PORT ROUNDS

The monitor runs until it is ended. The client (librados) stores a value in it and reads it back,
ROUNDS times, and then asks the monitor's counters whether its bytes went through RDMA. Both sides
use FOLDER; the monitor's admin socket is there.

Exit status: 0; 1 if a value was wrong, a command failed, or no byte went through RDMA.
"""

import base64
import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

VALUE_BYTES = 30_000  # several of Ceph's buffers


def write_configuration(folder: Path, device: str, address: str, port: str) -> Path:
    """Both sides share all but the device. The buffers are fewer than Ceph's 64 MiB a side."""
    path = folder / f"ceph-{device}-{os.getpid()}.conf"
    path.write_text(
        f"""[global]
fsid = {uuid.UUID(int=1)}
mon_initial_members = a
mon_host = [v1:{address}:{port}]
ms_bind_msgr2 = false
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
ms_type = async+rdma
ms_async_rdma_device_name = {device}
ms_async_rdma_buffer_size = 8192
ms_async_rdma_receive_queue_len = 512
ms_async_rdma_receive_buffers = 4096
ms_async_rdma_send_buffers = 512
run_dir = {folder}
log_file = {folder}/$name.log
admin_socket = {folder}/$name.asok
pid_file = {folder}/$name.pid
mon_data = {folder}/monitor
keyring = {folder}/keyring
"""
    )
    return path


def monitor(folder: Path, device: str, address: str, port: str) -> None:
    configuration = write_configuration(folder, device, address, port)
    map_file, keyring = str(folder / "monmap"), str(folder / "keyring")
    where = f"[v1:{address}:{port}]"
    for command in (
        ["monmaptool", "--create", "--fsid", str(uuid.UUID(int=1)), "--addv", "a", where, map_file],
        ["ceph-authtool", "--create-keyring", keyring, "--gen-key", "--name", "mon.", "--cap", "mon", "allow *"],
        ["ceph-mon", "--conf", str(configuration), "--mkfs", "--id", "a", "--monmap", map_file, "--keyring", keyring],
    ):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    print("the monitor starts", flush=True)
    os.execvp("ceph-mon", ["ceph-mon", "--conf", str(configuration), "--foreground", "--id", "a"])


def rdma_bytes(folder: Path) -> int:
    asked = ["ceph", "--admin-daemon", str(folder / "mon.a.asok"), "perf", "dump"]
    counters = json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)
    workers = [values for name, values in counters.items() if "RDMAWorker" in name]
    return min(sum(worker[count] for worker in workers) for count in ("tx_bytes", "rx_bytes"))


def client(folder: Path, device: str, address: str, port: str, rounds: str) -> int:
    import rados  # Debian's, of ceph-common

    configuration = write_configuration(folder, device, address, port)
    cluster = rados.Rados(conffile=str(configuration), name="client.admin")
    cluster.connect(timeout=30)

    def ask(prefix: str, key: str, value: bytes = b"") -> bytes:
        # A command that the client sends before the monitor's map has come is refused with EPERM
        # ("wrong fsid"), by any transport.
        for _ in range(10):
            status, answer, message = cluster.mon_command(json.dumps({"prefix": prefix, "key": key}), value)
            if status == 0:
                return answer
            if message != "wrong fsid":
                break
        raise SystemExit(f"client: {prefix}: status {status}: {message}")

    for number in range(int(rounds)):
        key, value = f"key/{number % 100}", base64.b64encode(os.urandom(VALUE_BYTES * 3 // 4))
        ask("config-key set", key, value)
        if ask("config-key get", key) != value:
            raise SystemExit(f"client: wrong value in round {number}")
    through_rdma = rdma_bytes(folder)
    if through_rdma < int(rounds) * VALUE_BYTES:
        raise SystemExit(f"client: only {through_rdma} bytes went through RDMA")
    print(f"client: {rounds} rounds, every byte right", flush=True)
    cluster.shutdown()
    return 0


def main() -> int:
    role, folder, *rest = sys.argv[1:]
    if role == "monitor":
        monitor(Path(folder), *rest)
    return client(Path(folder), *rest)


if __name__ == "__main__":
    sys.exit(main())
