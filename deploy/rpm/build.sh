#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# build.sh TARBALL OUT: build the RPM packages from the source tarball into OUT (`make rpm`). On
# Debian nothing satisfies the names of the spec's BuildRequires, so they are not checked there.
set -eu
here=$(dirname "$(readlink -f "$0")")
[ $# = 2 ] || { echo "usage: build.sh TARBALL OUT" >&2; exit 2; }
out=$(realpath -m "$2")
library=/usr/share/javascript/chart.js/chart.min.js
[ -e "$library" ] || { echo "build.sh: there is no $library: install Debian's package libjs-chart.js" >&2; exit 1; }

rm -rf "$out"
mkdir -p "$out/SOURCES" "$out/SPECS"
cp "$1" "$library" "$out/SOURCES"
cp "$here/verbena.spec" "$out/SPECS"
unchecked=()
command -v dpkg >/dev/null && unchecked=(--nodeps)
rpmbuild -ba "${unchecked[@]}" --define "_topdir $out" "$out/SPECS/verbena.spec" >"$out/log" 2>&1 ||
	{ tail -n 60 "$out/log" >&2; echo "build.sh: rpmbuild failed; its output: $out/log" >&2; exit 1; }
ls -1 "$out"/RPMS/*/*.rpm "$out"/SRPMS/*.rpm
