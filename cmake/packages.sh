#!/bin/bash
# packages.sh GROUP...: install the Debian packages of these groups (packages.txt) that are missing.
# If none is missing it does nothing and needs no privilege; otherwise it needs root or sudo.
set -eu
list=$(dirname "$0")/packages.txt

die() { echo "packages.sh: $*" >&2; exit 1; }
[ $# -gt 0 ] || die "usage: packages.sh GROUP... (groups: $(sed -n 's/^\([a-z]*\):.*/\1/p' "$list" | tr '\n' ' '))"

wanted=()
for group; do
	line=$(grep "^$group:" "$list") || die "no group '$group' in $list"
	read -ra names <<<"${line#*:}"
	wanted+=("${names[@]}")
done

if ! command -v dpkg-query >/dev/null; then
	echo "packages.sh: not a Debian system; what these packages hold must be there already: ${wanted[*]}" >&2
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
	command -v sudo >/dev/null || die "neither root nor sudo here; as root: apt-get install ${missing[*]}"
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
apt install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1 || { tail -n 40 "$log" >&2; die "apt-get could not install: ${missing[*]}"; }
