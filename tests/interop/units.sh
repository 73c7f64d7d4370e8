#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# units.sh BUILD: run the systemd units of the servers under systemd, inside rxe-vm. Systemd is the
# first process of a namespace, with the programs installed in /usr and certificates as credentials.
# units_inside.sh, a unit itself, then does what users and administrators do.
set -euo pipefail
build=${1:?usage: units.sh BUILD}
source=$(dirname "$(readlink -f "$0")")
work=$(mktemp -d -p /var/tmp)
for component in nic tools servers; do cmake --install "$build" --prefix /usr --component $component >"$work/log"; done
cp "$source"/../../deploy/packages/*.service /etc/systemd/system
# The units are for a host with software devices only.
rdma link delete rxe0
rdma link delete rxe1
mkdir -p /etc/verbena
HOME=$work verbena certs --dir /etc/verbena --host localhost --host 127.0.0.1
chmod 600 /etc/verbena/*.key
chown nobody /etc/verbena/client.key # the user of units_inside.sh
for server in kv echo; do
	unit=verbena-$server-server.service
	mkdir -p /etc/systemd/system/$unit.d
	printf '[Service]\nLoadCredential=%s\nLoadCredential=%s\nLoadCredential=%s\n' ca.pem:/etc/verbena/ca.pem \
		server.pem:/etc/verbena/server.pem server.key:/etc/verbena/server.key >/etc/systemd/system/$unit.d/certificates.conf
	folder=/run/credentials/$unit
	echo "OPTIONS=--ca $folder/ca.pem --cert $folder/server.pem --key $folder/server.key" \
		>/etc/default/verbena-$server-server
done
cat >/etc/systemd/system/units-inside.service <<END
[Unit]
Wants=verbena-kv-server.service verbena-echo-server.service
After=verbena-kv-server.service verbena-echo-server.service
SuccessAction=exit-force
FailureAction=exit-force
[Service]
Type=oneshot
TimeoutStartSec=240
StandardOutput=file:$work/out
StandardError=inherit
ExecStart=$source/units_inside.sh
END
# Units that prepare a host. They would take a minute, and this one does not need them.
for unit in systemd-tmpfiles-setup systemd-journal-flush systemd-udev-trigger systemd-binfmt systemd-modules-load; do
	ln -sf /dev/null /etc/systemd/system/$unit.service
done
sysctl -q kernel.printk_devkmsg=on
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 cgroup2 /sys/fs/cgroup
status=0
timeout 300 env -i container=units PATH="$PATH" unshare --pid --fork --mount --propagation shared --mount-proc --cgroup --kill-child \
	/lib/systemd/systemd --system --unit=units-inside.service --show-status=0 --log-target=kmsg || status=$?
cat "$work/out" || true
[ "$(tail -n 1 "$work/out")" = "units: all passed" ] || { dmesg | grep -i systemd | tail -n 60; echo "units: failed (systemd's status $status)"; exit 1; }
