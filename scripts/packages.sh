# SPDX-License-Identifier: GPL-2.0-or-later
# Debian packages by purpose; read by install-deps.sh and probe-deps.sh.
# shellcheck shell=sh disable=SC2034

# make
build="gcc libc6-dev make clang bpftool libbpf-dev libelf-dev libdw-dev libiberty-dev
zlib1g-dev liblzma-dev libjansson-dev libsmartcols-dev libcap-dev uthash-dev libdebuginfod-dev"

# make STATIC=1: what the static archives need besides
static="libbz2-dev"

# make check
check="libcmocka-dev xz-utils python3 python3-pytest binutils gdb g++ stress-ng redis-server redis-tools
postgresql util-linux procps"

# make check-kernels
kernels="qemu-system-x86 busybox-static"

# make bench
bench="libbpf-tools bpftrace linux-perf python3"
