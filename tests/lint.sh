#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# lint.sh BUILD: run every linter over every file of the project, and fail if one of them objects.
# BUILD is a configured build folder, whose compile_commands.json clang-tidy reads.
set -eu
build=${1:?usage: lint.sh BUILD}
build=$(realpath "$build")
cd "$(dirname "$0")/.."
failed=()
run() {  # run NAME COMMAND...
	local name=$1
	shift
	"$@" || failed+=("$name")
}

mapfile -t cxx < <(find base nic lib bench tools fuzz tests -name '*.cc' -o -name '*.h' 2>/dev/null | sort)
mapfile -t compiled < <(sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' "$build/compile_commands.json" |
	grep -F "$PWD/" | grep -vF -e "$build/" -e "$PWD/examples/" | grep -v "_test\.cc$" | sort -u)
mapfile -t shell < <(grep -rlE --include='*' -m1 '^#!/bin/(ba)?sh' --exclude-dir='build*' --exclude-dir=.git . | sort)

# clang refuses the headers of Debian 12's Cap'n Proto as C++20 (bench/rpc/capnp/CMakeLists.txt has
# the reason), so clang-tidy cannot read the one file that includes them.
mapfile -t compiled < <(printf '%s\n' "${compiled[@]}" | grep -vxF "$PWD/bench/rpc/capnp/main.cc")

# clang-tidy needs the headers that the build generates: always the commit's, and those of gRPC
# where it is installed.
mapfile -t generated < <(ninja -C "$build" -t targets all | sed -nE 's/^(.*\.pb\.h): .*/\1/p')
cmake --build "$build" --target verbena_commit "${generated[@]}" -- --quiet

run clang-format clang-format-19 --dry-run --Werror "${cxx[@]}"
run prose tests/lint/prose.py
run spdx tests/lint/spdx.py
run coroutines tests/lint/coroutines.py
run shellcheck shellcheck --external-sources --severity=warning "${shell[@]}"

venv=$build/lint
if ! cmp -s cmake/lint-requirements.txt "$venv/installed"; then
	/usr/bin/python3 -m venv "$venv"
	"$venv/bin/pip" -q --disable-pip-version-check install -r cmake/lint-requirements.txt
	cp cmake/lint-requirements.txt "$venv/installed"
fi
run ruff "$venv/bin/ruff" check --quiet .
run ruff-format "$venv/bin/ruff" format --quiet --check .

# Unit tests are left out: they would double the time, and GoogleTest's assertions confuse the
# analyzer.
run clang-tidy tests/lint/tidy.py "$build" < <(printf '%s\n' "${compiled[@]}")

if [ ${#failed[@]} -gt 0 ]; then
	echo "lint: failed: ${failed[*]}; their findings are above" >&2
	exit 1
fi
echo "lint: ${#cxx[@]} C++ files, ${#shell[@]} shell scripts and the Python are clean"
