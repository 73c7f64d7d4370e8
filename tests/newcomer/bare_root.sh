# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# A bare Debian 12 in a folder, for scripts that source this file with `set -eu`. Needs root or
# sudo.
#
# The bare root and the downloaded packages are kept in ~/.cache/verbena/newcomer (NEWCOMER_CACHE).
# Packages come from the archive from which this machine's apt gets bookworm, or from
# NEWCOMER_MIRROR.
PATH=$PATH:/usr/sbin:/sbin
name=$(basename "$(dirname "$0")")
die() { echo "$name: $*" >&2; exit 1; }

# enter SCRIPT ARGUMENT...: run the script as root, in mount and process namespaces of its own, so
# that all mounts and processes end with it. VERBENA_BARE_ROOT is set in it.
enter() {
	export NEWCOMER_CACHE=${NEWCOMER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/verbena/newcomer}
	export VERBENA_BARE_ROOT=1
	as_root=()
	[ "$(id -u)" = 0 ] ||
		as_root=(sudo "--preserve-env=NEWCOMER_CACHE,NEWCOMER_MIRROR,NEWCOMER_COMMANDS,VERBENA_BARE_ROOT")
	mkdir -p "$NEWCOMER_CACHE"
	exec "${as_root[@]}" unshare --mount --pid --fork --kill-child "$@"
}

# Makes a new bare root and sets `root` to its folder, which is removed when the script ends.
make_root() {
	# "URI SUITE" of every bookworm archive that this machine's apt knows; debootstrap uses the
	# first.
	sources=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
		awk '$2 ~ /^bookworm/ && $3 == "main" && !seen[$1 $2]++ { print $1, $2 }')
	mirror=${NEWCOMER_MIRROR:-$(awk '$2 == "bookworm" { print $1; exit }' <<<"$sources")}
	[ -n "$mirror" ] || die "this machine's apt has no bookworm archive; name one in NEWCOMER_MIRROR"
	[ -n "$sources" ] || sources="$mirror bookworm"

	bare=$NEWCOMER_CACHE/bookworm-$(dpkg --print-architecture).tar
	archives=$NEWCOMER_CACHE/archives
	mkdir -p "$archives/partial"
	if [ ! -e "$bare" ]; then
		echo "$name: making the bare root; later runs reuse it"
		rm -rf "$NEWCOMER_CACHE/making"
		log=$NEWCOMER_CACHE/debootstrap.log
		debootstrap --variant=minbase --include=make,git,ca-certificates \
			bookworm "$NEWCOMER_CACHE/making" "$mirror" >"$log" 2>&1 ||
			{ tail "$log" >&2; die "debootstrap failed; the whole log is $log"; }
		rm -rf "$NEWCOMER_CACHE"/making/var/cache/apt/archives/*.deb "$NEWCOMER_CACHE"/making/var/lib/apt/lists/*
		tar -C "$NEWCOMER_CACHE/making" --one-file-system -cf "$bare.new" .
		mv "$bare.new" "$bare"
		rm -rf "$NEWCOMER_CACHE/making"
	fi

	root=$(mktemp -d "$NEWCOMER_CACHE/root.XXXXXX")
	trap remove_root EXIT
	trap 'exit 143' INT TERM HUP
	mount --bind "$root" "$root"
	mount --make-rprivate "$root"
	tar -C "$root" -xf "$bare"
	mount -t proc proc "$root/proc"
	mount --rbind /dev "$root/dev"
	mount --make-rslave "$root/dev"
	mount --bind "$archives" "$root/var/cache/apt/archives"
	cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
	sed 's/.*/deb & main/' <<<"$sources" >"$root/etc/apt/sources.list"
	apt-config dump | grep -E '^Acquire::(http|https)::Proxy' >"$root/etc/apt/apt.conf.d/00proxy" || true
}

# The cache of downloads is mounted below the root, so the root is removed only when nothing is
# mounted.
remove_root() { umount -R "$root" 2>/dev/null || true; ! grep -qF " $root" /proc/self/mounts && rm -rf "$root"; }

# inside COMMAND: run a shell command in the bare root.
inside() {
	chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb DEBIAN_FRONTEND=noninteractive \
		${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} bash -c "$1" </dev/null
}
