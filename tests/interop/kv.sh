#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kv.sh BUILD: run the key-value store on the kernel's Soft-RoCE, inside rxe-vm. First its unit
# tests with rxe0 as their device, then kv_server and kv_client with each way in which values
# travel, then the benchmark with both protocols, whose rows `verbena check` must accept.
#
# Tests that are left out: values of 64 MiB and thousands of operations at once, which take minutes
# on an emulated processor, and leases of 50 ms, which expire on one.
set -euo pipefail
build=${1:?usage: kv.sh BUILD}
VERBENA_TEST_DEVICE=rxe0 timeout 400 "$build/bench/lib_kv_test" \
	--gtest_filter='Ways/Kv.*:KvBase.*:OneSided.*:-*64Mebibytes*:*ThousandsOfOperations*:*LeavesRegistrations*:*NeverTorn*' |
	grep -v '^\[ RUN\|^\[---'
"$build/kv_server" --listen 10.77.0.1 --device rxe0 --one-sided 16M &
server=$!
commands=$(mktemp)
for i in 1 2 3 4; do
	printf 'SET key%d %s\nGET key%d\nGET key%d\n' $i "$(head -c $((i * 3000)) /dev/zero | tr '\0' $i)" $i $i
done >"$commands"
for way in "--proto eager" "--proto rndv" "--proto rndv --rndv write" "--proto auto --one-sided" "--transport tcp"; do
	# shellcheck disable=SC2086 # several words
	until
		got=$("$build/kv_client" 10.77.0.1 --device rxe1 $way "$commands" | tr -d '\n' | wc -c)
		[ "$got" = 60000 ]
	do
		[ $((tries = ${tries:-0} + 1)) -lt 20 ] ||
			{ echo "kv: $way: the client printed $got bytes, not 60000"; exit 1; }
		sleep 0.5 # the server is not listening yet
	done
	echo "kv: $way: 8 values were read as they were set"
done
kill $server
wait $server
table=$(mktemp)
timeout 300 "$build/verbena" bench kv --device rxe0 --sizes 64,64K --reps 1 --iters 200 --seconds-max 10 --window 1,16 \
	--proto eager,rndv,auto --quiet --csv "$table"
"$build/verbena" check "$table"
rows=$(grep -cE '^(SET|GET),' "$table")
[ "$rows" = 24 ] || { echo "kv: the benchmark measured $rows rows, not 24"; exit 1; }
echo "kv: the benchmark measured eager, rendezvous and auto on rxe0"
