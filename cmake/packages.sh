#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# packages.sh GROUP...: install the Debian packages of these groups (packages.txt) that are missing.
# If none is missing it does nothing and needs no privilege; otherwise it needs root or sudo.
set -eu
list=$(dirname "$0")/packages.txt

groups=$(sed -n 's/^\([a-z]*\):.*/\1/p' "$list" | paste -sd " ")
die() { echo "packages.sh: $*" >&2; exit 1; }
[ $# -gt 0 ] || die "usage: packages.sh GROUP..., a group being one of: $groups"

wanted=()
for group; do
	line=$(grep "^$group:" "$list") || die "there is no group '$group'; the groups are: $groups"
	read -ra names <<<"${line#*:}"
	wanted+=("${names[@]}")
done

if ! command -v dpkg-query >/dev/null; then
	echo "packages.sh: this is not Debian, so nothing is installed; the build needs the contents of: ${wanted[*]}" >&2
	exit 0
fi

missing=()
for package in "${wanted[@]}"; do
	status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) || status=
	[ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

echo "Installing ${missing[*]}"
as_root=()
if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null || die "not root, and there is no sudo; run as root: apt-get install ${missing[*]}"
	as_root=(sudo)
fi
apt() {
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@" </dev/null
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# A failed update is not fatal, because the package lists on this machine may be recent enough. The
# output is shown only when the installation fails.
apt update >"$log" 2>&1 || true
if ! apt install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
	tail -n 40 "$log" >&2
	die "apt-get could not install ${missing[*]}; its output is above"
fi
