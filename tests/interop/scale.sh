#!/bin/bash
# scale.sh BUILD - run inside rxe-vm: echo_server and its clients as processes of their own on the kernel's Soft-RoCE: 100 clients that
# connect over TCP, and by the kernel's rdma_cm. Authenticated as programs of one user.
set -euo pipefail
build=${1:?usage: scale.sh BUILD}
log=$(mktemp)
"$build/echo_server" --listen 10.77.0.1 --port 7471 --device rxe0 >"$log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
until grep -q 'listening at' "$log"; do kill -0 $server; sleep 0.1; done
for way in tls-psn rdmacm; do
	echo "scale: 100 clients by $way"
	timeout 100 "$build/performance_test" -c 100 -n 5 -t 0 -s 10.77.0.1:7471 --connect $way | grep -E '^ +(clients|100 )|connections/s|^failures'
done
kill $server
wait $server
tail -n 1 "$log" | grep '100 clients at most, 1000 messages echoed, 0 lost, 0 handshakes failed'
