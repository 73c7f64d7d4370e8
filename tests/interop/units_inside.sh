#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# units_inside.sh: what users and administrators do with the running units. units.sh starts it.
set -euo pipefail
die() {
	echo "units: $1"
	journalctl --no-pager -q -u 'verbena-*' | tail -n 30 || true
	exit 1
}
until_true() { # until_true SENTENCE COMMAND...
	local sentence=$1 tries=0
	shift
	until "$@"; do
		[ $((tries += 1)) -lt 100 ] || die "$sentence"
		sleep 0.2
	done
}
trusts="--ca /etc/verbena/ca.pem --cert /etc/verbena/client.pem --key /etc/verbena/client.key"
# A user of the host, whose processes connect to those of others.
as_user() { setpriv --reuid=nobody --regid=nogroup --clear-groups env HOME=/tmp VERBENA_PEERS=host "$@"; }
of() { systemctl show --value -p "$2" "verbena-$1-server"; }
# shellcheck disable=SC2086 # several words
answers() { [ "$(printf 'SET key value\nGET key\n' | as_user kv_client localhost --transport "$1" $trusts)" = value ]; }

listens() { grep -q "listening at" <<<"$(journalctl -q -o cat -u "verbena-$1-server")"; }

for server in kv echo; do
	until_true "the $server server does not listen" listens $server
	user=$(ps -o user:32= -p "$(of $server MainPID)")
	[ "$user" = "verbena-$server-server" ] || die "the $server server runs as $user, not as a dynamic user"
	echo "units: the $server server runs as $user"
done
for transport in rdma tcp; do
	until_true "the store does not answer over $transport" answers $transport
	echo "units: the store answers another user over $transport"
done
# shellcheck disable=SC2086
as_user performance_test -c 4 -n 100 -s localhost $trusts >/dev/null || die "the echo server does not answer"
echo "units: the echo server answers another user"

kill -KILL "$(of kv MainPID)"
restarted() { [ "$(of kv NRestarts)" = 1 ]; }
until_true "the store was not started again" restarted
until_true "the store does not answer after its restart" answers rdma
echo "units: the store was killed, started again, and answers"

for server in kv echo; do
	systemctl stop verbena-$server-server
	[ "$(of $server Result)" = success ] || die "the $server server ended with $(of $server Result)"
	echo "units: the $server server ended in order"
done
! compgen -G "/run/verbena-*" || die "files are left in /run"
echo "units: all passed"
