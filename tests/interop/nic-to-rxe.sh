#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# nic-to-rxe.sh BUILD: run pairs of Debian's programs, one on our NIC on this host and one on the
# kernel's rxe in a guest. They are joined by a tap in a network namespace of its own. Needs root.
# Our side is the server and the guest's programs are its clients, one after the other; with rdma_cm
# also the other way round.
set -eu
build=$(realpath "${1:?usage: nic-to-rxe.sh BUILD}")
here=$(dirname "$(readlink -f "$0")")
nic=$build/libverbena-nic.so
[ -e "$nic" ] || { echo "nic-to-rxe: there is no $nic; run make build" >&2; exit 1; }

namespace=verbena-rxe-$$
logs=$(mktemp -d)
servers=()
cleanup() {
	[ ${#servers[@]} -eq 0 ] || kill "${servers[@]}" 2>/dev/null || true
	ip netns del "$namespace" || true
	rm -rf "$logs"
}
ip netns add "$namespace"
trap cleanup EXIT
ip -n "$namespace" link set lo up
ip -n "$namespace" tuntap add tap0 mode tap
ip -n "$namespace" address add 10.99.0.1/24 dev tap0
ip -n "$namespace" link set tap0 up

# on_our_side COMMAND...: run it on our NIC once the guest has the other end of the tap. Before, the
# port's state is Down. Runs in the background and becomes the command.
on_our_side() {
	until [ "$(ip netns exec "$namespace" cat /sys/class/net/tap0/carrier)" = 1 ]; do sleep 0.1; done
	exec ip netns exec "$namespace" timeout 400 env LD_PRELOAD="$nic" "$@"
}

# One program on each line; each gets its own port. -u 20: an emulated processor may not answer
# within the default timeout. -o 16: without it, ib_atomic_lat asks our side for rxe's 128
# outstanding atomics, and our limit is 16.
programs=(
	"ibv_rc_pingpong -m 1024 -s 4096 -n 50"
	"ibv_rc_pingpong -m 1024 -s 65536 -n 20 -e"
	"ibv_uc_pingpong -m 1024 -s 1024 -n 20"
	"ibv_ud_pingpong -s 1024 -n 20"
	"ib_send_bw -F -u 20 -s 4096 -n 100"
	"ib_write_bw -F -u 20 -s 4096 -n 100"
	"ib_read_bw -F -u 20 -s 4096 -n 100"
	"ib_atomic_lat -F -u 20 -n 50 -o 16"
)
guest="export LC_ALL=C; failures=0"
port=18600
for program in "${programs[@]}"; do
	port=$((port + 1))
	case $program in ibv_*) ours=-g\ 0 theirs='-d rxe_eth0 -g 1' ;; *) ours=-x\ 0 theirs='-d rxe_eth0 -x 1' ;; esac
	# shellcheck disable=SC2086 # the words of a command line
	on_our_side $program $ours -p $port >"$logs/$port" 2>&1 &
	servers+=($!)
	guest+="
timeout 60 $program $theirs -p $port 10.99.0.1 >/tmp/out 2>&1; status=\$?
if [ \$status != 0 ] || grep -qiE 'error|fail|unable|couldn.t' /tmp/out; then
	failures=\$((failures + 1)); cat /tmp/out
fi
echo \"\$status $program\""
done

# By rdma_cm, with the guest as the client: the server's command, a bar, the client's command, to
# which the address is added. PORT stands for a port of their own; udaddy has a fixed one.
called=(
	"rping -s -p PORT -C 10 -S 4000|rping -c -p PORT -C 10 -S 4000 -V -a"
	"ucmatose -p PORT -C 10 -c 4|ucmatose -p PORT -C 10 -c 4 -s"
	"udaddy -C 10|udaddy -C 10 -s"
	"rstream -p PORT -C 20 -S 4096|rstream -p PORT -C 20 -S 4096 -s"
	"ib_send_bw -F -R -u 20 -p PORT -s 4096 -n 100|ib_send_bw -F -R -u 20 -p PORT -s 4096 -n 100"
)
for pair in "${called[@]}"; do
	port=$((port + 1))
	pair=${pair//PORT/$port}
	# shellcheck disable=SC2086
	on_our_side ${pair%|*} >"$logs/$port" 2>&1 &
	servers+=($!)
	guest+="
timeout 60 ${pair#*|} 10.99.0.1 >/tmp/out 2>&1; status=\$?
if [ \$status != 0 ] || grep -qiE 'error|fail|unable|couldn.t' /tmp/out; then
	failures=\$((failures + 1)); cat /tmp/out
fi
echo \"\$status rdma_cm, the guest is the client: ${pair#*|}\""
done

# The other way round: the guest is the server, and our side tries until it answers.
calling=(
	"rping -s -p PORT -C 10 -S 4000|rping -c -p PORT -C 10 -S 4000 -V -a"
	"ucmatose -p PORT -C 10 -c 4|ucmatose -p PORT -C 10 -c 4 -s"
	"udaddy -C 10|udaddy -C 10 -s"
)
for pair in "${calling[@]}"; do
	port=$((port + 1))
	pair=${pair//PORT/$port}
	on_our_side bash -c "
		until ${pair#*|} 10.99.0.2; do sleep 1; done" >"$logs/$port" 2>&1 &
	servers+=($!)
	guest+="
timeout 60 ${pair%|*} >/tmp/out 2>&1; status=\$?
if [ \$status != 0 ]; then failures=\$((failures + 1)); cat /tmp/out; fi
echo \"\$status rdma_cm, the guest is the server: ${pair%|*}\""
done
guest+='
cd /sys/class/infiniband/rxe_eth0/ports/1/hw_counters; grep -H . rcvd_pkts sent_pkts rcvd_rnr_err out_of_seq_request
exit $failures'

status=0
tap=tap,ifname=tap0,script=no,downscript=no
ip netns exec "$namespace" "$here/rxe-vm" -c 1 -t 500 -n "$tap" -a 10.99.0.2/24 -- bash -c "$guest" || status=$?
if [ $status != 0 ]; then
	echo "nic-to-rxe: the guest's status is $status; the end of each of our programs' output:" >&2
	tail -n 12 "$logs"/* >&2
fi
exit $status
