# SPDX-License-Identifier: Apache-2.0
# two_hosts.sh, to be sourced: two network namespaces, `a` and `b`, are the hosts, joined by a veth
# pair whose ends are called `wire` (192.168.7.1 and 192.168.7.2).
for host in a b; do
	ip netns add $host
	ip -n $host link set lo up
done
ip -n a link add wire type veth peer name wire netns b
ip -n a address add 192.168.7.1/24 dev wire
ip -n b address add 192.168.7.2/24 dev wire
for host in a b; do ip -n $host link set wire up; done
