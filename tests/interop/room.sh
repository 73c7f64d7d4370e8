#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# room.sh BUILD: run Debian's perftest on our NIC between two network namespaces, inside rxe-vm,
# whose kernel limits a socket's receive buffer to its default. No socket may lose a datagram.
set -eu
build=$(realpath "${1:?usage: room.sh BUILD}")
limit=$(sysctl -n net.core.rmem_max)
[ "$limit" -le 212992 ] || { echo "room: net.core.rmem_max is $limit, and not the kernel's default" >&2; exit 1; }

# shellcheck source=tests/interop/two_hosts.sh
. "$(dirname "$0")/two_hosts.sh"

# The counter of one end, which perftest prints below its result.
overruns() { sed -n 's|.*/excessive_buffer_overrun_errors[^0-9]*\([0-9]*\).*|\1|p' "$1"; }
counter=counters/excessive_buffer_overrun_errors

# -u 20: an emulated processor may not answer within the default timeout, and it sends 6 MiB a
# second when the machine is busy, so that 128 MiB are enough for all queue pairs of a program.
failures=0 port=18800
for mtu in 1500 9000; do
	for host in a b; do ip -n $host link set wire mtu $mtu up; done
	for program in "ib_write_bw -t 1" "ib_write_bw -t 16" "ib_write_bw -t 64" "ib_write_bw -t 16 -b" \
		"ib_send_bw -t 64 -r 64" "ib_read_bw -t 16" "ib_write_bw -t 16 -q 8"; do
		port=$((port + 1))
		count=128
		[ "${program% -q 8}" = "$program" ] || count=16
		options="-F -u 20 -d vb_wire -p $port -W $counter -s 1048576 -n $count --cq-mod 1"
		# shellcheck disable=SC2086 # the words of a command line
		VERBENA_LOG=debug ip netns exec b timeout 100 "$build/verbena" run -- $program $options >/tmp/server 2>&1 &
		server=$!
		status=1
		# The client may start before its server listens. The pause is between two tries.
		for _ in $(seq 20); do
			# shellcheck disable=SC2086
			VERBENA_LOG=debug ip netns exec a timeout 100 "$build/verbena" run -- $program $options 192.168.7.2 \
				>/tmp/client 2>&1 && status=0 && break
			kill -0 $server 2>/dev/null || break
			sleep 0.2
		done
		wait $server || status=$?
		lost="$(overruns /tmp/server) $(overruns /tmp/client)"
		agreed=yes
		for end in server client; do grep -q 'has room for' /tmp/$end || agreed=no; done
		echo "room: status $status, MTU $mtu, agreed: $agreed, datagrams lost: $lost: $program"
		if [ $status != 0 ] || [ $agreed = no ] || [ "$lost" != "0 0" ]; then
			failures=$((failures + 1))
			grep -hv -e 'address: LID' -e 'GID: ' /tmp/server /tmp/client || true
		fi
	done
done
[ $failures = 0 ]
