#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# run.sh [memo]: builds the bench's own workloads and runs it; "memo" runs only the check of the
# stack memos. Environment: ROUNDS, B (build directory).
set -eu
cd "$(dirname "$0")/../.."

B=${B:-build}
python=$(command -v /usr/bin/python3 || echo python3)

if [ "$(id -u)" != 0 ]; then
	echo "bench: it must run as root" >&2
	exit 1
fi
# A peer that cannot be installed is skipped.
scripts/install-deps.sh build bench || true

mkdir -p "$B/bench"
case $(uname -m) in
x86_64) leaf=-mno-omit-leaf-frame-pointer ;;
*) leaf= ;;
esac
for name in pingpong spin; do
	# shellcheck disable=SC2086
	${CC:-gcc} -std=gnu11 -D_GNU_SOURCE -O2 -g -fno-omit-frame-pointer $leaf -Wall -Wextra \
		-o "$B/bench/$name" "tests/bench/$name.c" -pthread
done
exec "$python" -B tests/bench/bench.py --build "$B" "$@"
