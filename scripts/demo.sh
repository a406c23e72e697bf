#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Records a bundled workload with three known problems: a CPU hog (hot_loop), a lock that is held by
# a sleeper (cache_lock: refresh_entry waits, rebuild_index holds it) and a slow fsync (write_journal).
set -eu
cd "$(dirname "$0")/.."

if [ "$(id -u)" != 0 ]; then
	echo "cannot record: root is needed; run it with sudo: sudo make demo" >&2
	exit 1
fi
scripts/install-deps.sh build
make -s -j"$(nproc)" all build/targets/demo

out=build/demo
mkdir -p $out
build/targets/demo $out/journal >/dev/null &
demo=$!
trap 'kill $demo 2>/dev/null || true' EXIT
sleep 0.3
echo "+ build/offcpu -p $demo -d 5 -o $out/demo -f folded,json"
build/offcpu -p $demo -d 5 -o $out/demo -f folded,json
