#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scale.sh BUILD: run echo_server and performance_test on the kernel's Soft-RoCE, inside rxe-vm.
#
# First 100 clients connect over TCP, and 100 by the kernel's rdma_cm; all must succeed. Then the
# number is doubled until the guest cannot hold the clients, and the largest number that passed is
# printed. The script fails if 100 do not pass, or if a server does not end with 0. Both ends run as
# one user, and authenticate each other by that user's identity.
set -euo pipefail
build=${1:?usage: scale.sh BUILD}
log=$(mktemp) out=$(mktemp)
clients_most=12800 seconds_most=60
server=
trap 'kill $server 2>/dev/null || true' EXIT

serve() {
	"$build/echo_server" --listen 10.77.0.1 --port 7471 --device rxe0 >"$log" 2>&1 &
	server=$!
	until grep -q 'listening at' "$log"; do kill -0 $server; sleep 0.1; done
}
end_server() {
	kill $server
	wait $server
}
clients() { # NUMBER WAY
	timeout $seconds_most "$build/performance_test" -c "$1" -n 5 -t 0 -s 10.77.0.1:7471 --connect "$2" >"$out" 2>&1
}

serve
for way in tls-psn rdmacm; do
	echo "scale: 100 clients, connected by $way"
	clients 100 $way || { cat "$out"; exit 1; }
	grep -E '^path|^ +(clients|100 )|connections/s|^failures' "$out"
done
end_server
tail -n 1 "$log" | grep 'at most 100 clients were connected at a time, 1000 messages echoed, 0 lost, 0 handshakes failed'

for way in tls-psn rdmacm; do
	passed=100 why="larger numbers were not tried"
	while ((passed < clients_most)); do
		serve
		next=$((2 * passed)) status=0
		clients $next $way || status=$?
		end_server || { status=$?; echo "scale: the server of $next clients exited with $status"; tail "$log"; exit 1; }
		if ((status != 0)); then
			why=$(grep -m 1 '^performance_test: ' "$out" || true)
			((status != 124)) || why="they were not done within $seconds_most s"
			why="$next failed: ${why:-status $status}"
			break
		fi
		passed=$next
	done
	echo "scale: by $way, at most $passed clients passed; $why"
done
