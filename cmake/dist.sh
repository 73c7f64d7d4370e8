#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# dist.sh OUT: write OUT/verbena-VERSION.tar.xz with the files of the commit HEAD (`make dist`). Two
# tarballs of one commit are equal; SOURCE_DATE_EPOCH, or else the commit's time, is the time of
# their files.
set -eu
out=$(realpath -m "${1:?usage: dist.sh OUT}")
cd "$(dirname "$0")/.."
[ -e .git ] || { echo "dist.sh: this is no clone of the repository, so there is no commit to pack" >&2; exit 1; }
[ -z "$(git status --porcelain)" ] || echo "dist.sh: the tarball leaves out the changes that are not committed" >&2
version=$(git show HEAD:VERSION)
name=verbena-$version
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

git archive --prefix="$name/" HEAD | tar -C "$scratch" -x
mkdir -p "$out"
LC_ALL=C tar -C "$scratch" --format=gnu --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
	--mtime="@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}" -c "$name" | xz -T1 -3 >"$scratch/tarball"
# A reader never sees a part of it.
mv "$scratch/tarball" "$out/$name.tar.xz"
echo "$out/$name.tar.xz"
