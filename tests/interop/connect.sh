#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# connect.sh BUILD: measure how fast rdma_cm connects, inside rxe-vm, by the same program on the
# kernel's Soft-RoCE and on our NIC.
#
# First on rxe: between two processes on one device, and between rxe0 and rxe1 over the wire. Then
# on our NIC, between two processes; for this the rxe devices are deleted, because with them rdma_cm
# stays the kernel's. The guest's processor may be emulated, so compare figures only within one run.
set -eu
bench=${1:?usage: connect.sh BUILD}/verbena
few=(--clients "1,16" --count "${COUNT:-200}" --reps 3 --quiet)
results=$(mktemp -d)

"$bench" bench connect "${few[@]}" --csv "$results/1 kernel rxe, one device"
"$bench" bench connect --listen --once --port 18999 --quiet &
"$bench" bench connect --peer 10.77.0.1:18999 --device rxe1 "${few[@]}" --csv "$results/2 kernel rxe, over the wire"
wait
for link in $(rdma link show | sed -n 's|^link \([^/]*\)/.*|\1|p'); do rdma link delete "$link"; done
"$bench" bench connect "${few[@]}" --csv "$results/3 verbena, one host"

for file in "$results"/*; do
	awk -F, -v where="$(basename "$file" | cut -c3-)" '
		/^#/ { next }
		!seen++ { for (i = 1; i <= NF; ++i) column[$i] = i; next }
		{ printf "connect: %-26s %2d clients %8.0f connects/s, p50 %8.0f us, p99 %8.0f us, " \
			"disconnect %6.0f us, device %s, %s\n", where,
			$column["clients"], $column["connects_per_s"], $column["p50_us"], $column["p99_us"],
			$column["disconnect_p50_us"], device, $column["validity"] }
	' device="$(sed -n 's/^# device: //p' "$file")" "$file"
done
grep -h '^# cpu' "$results"/1* | sed 's/^# cpu/connect: processor of the guest/'
