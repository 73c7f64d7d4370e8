#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tunnels.sh BUILD: run Debian's programs on our NIC over tunnels, inside rxe-vm, whose kernel has
# ipip and WireGuard.
#
# Two network namespaces are the hosts, joined by a veth pair. Each tunnel has an interface in both:
# point to point and without neighbours, so rdma_cm must not look for one. rdma_cm connects to the
# tunnel's address, and the packets are counted at the tunnel (segments of one send are one packet).
set -eu
build=$(realpath "${1:?usage: tunnels.sh BUILD}")
for link in $(rdma link show | sed -n 's|^link \([^/]*\)/.*|\1|p'); do rdma link delete "$link"; done

# shellcheck source=tests/interop/two_hosts.sh
. "$(dirname "$0")/two_hosts.sh"

modprobe ipip
ip -n a tunnel add ipip1 mode ipip local 192.168.7.1 remote 192.168.7.2
ip -n b tunnel add ipip1 mode ipip local 192.168.7.2 remote 192.168.7.1

modprobe wireguard
keys=$(mktemp -d)
umask 077
for host in a b; do
	wg genkey >"$keys/$host"
	ip -n $host link add wireguard1 type wireguard
done
ip netns exec a wg set wireguard1 private-key "$keys/a" listen-port 51820 \
	peer "$(wg pubkey <"$keys/b")" allowed-ips 10.2.0.2/32 endpoint 192.168.7.2:51820
ip netns exec b wg set wireguard1 private-key "$keys/b" listen-port 51820 \
	peer "$(wg pubkey <"$keys/a")" allowed-ips 10.2.0.1/32 endpoint 192.168.7.1:51820

network=0
for tunnel in ipip1 wireguard1; do
	network=$((network + 1))
	ip -n a address add 10.$network.0.1 peer 10.$network.0.2 dev $tunnel
	ip -n b address add 10.$network.0.2 peer 10.$network.0.1 dev $tunnel
	for host in a b; do ip -n $host link set $tunnel up; done
done

sent() { ip netns exec a cat "/sys/class/net/$1/statistics/tx_packets"; }

# A server's command, a bar, and its client's, to which the server's address is added.
pairs=(
	"rping -s -p PORT -C 20 -S 4000|rping -c -p PORT -C 20 -S 4000 -V -a"
	"ucmatose -p PORT -C 20 -c 4|ucmatose -p PORT -C 20 -c 4 -s"
	"ib_send_bw -F -R -p PORT -d DEVICE -s 4096 -n 200|ib_send_bw -F -R -p PORT -d DEVICE -s 4096 -n 200"
	"ibv_rc_pingpong -p PORT -d DEVICE -g 0 -n 50|ibv_rc_pingpong -p PORT -d DEVICE -g 0 -n 50"
)
failures=0 port=18700 network=0
for tunnel in ipip1 wireguard1; do
	network=$((network + 1))
	for pair in "${pairs[@]}"; do
		port=$((port + 1)) before=$(sent $tunnel)
		pair=${pair//PORT/$port} pair=${pair//DEVICE/vb_$tunnel}
		# shellcheck disable=SC2086 # the words of a command line
		ip netns exec b timeout 60 "$build/verbena" run -- ${pair%|*} >/tmp/server 2>&1 &
		server=$!
		status=1
		# The client may start before its server listens. The pause is between two tries.
		for _ in $(seq 20); do
			# shellcheck disable=SC2086
			ip netns exec a timeout 60 "$build/verbena" run -- ${pair#*|} 10.$network.0.2 >/tmp/client 2>&1 && status=0 && break
			kill -0 $server 2>/dev/null || break
			sleep 0.2
		done
		wait $server || status=$?
		packets=$(($(sent $tunnel) - before))
		if [ $status != 0 ] || [ $packets -lt 10 ] || grep -qiE 'error|fail|unable|couldn.t' /tmp/client; then
			failures=$((failures + 1))
			cat /tmp/server /tmp/client
		fi
		echo "tunnels: status $status, $packets packets through $tunnel: ${pair#*|}"
	done
done
rm -rf "$keys"
[ $failures = 0 ]
