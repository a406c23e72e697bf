#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Checks that what 'make' needs is there. Says on one line which packages to install.
set -u

missing=
need()	# package
{
	case " $missing " in
	*" $1 "*) ;;
	*) missing="$missing $1" ;;
	esac
}

tool()	# command package
{
	command -v "$1" >/dev/null 2>&1 || need "$2"
}

header()	# header package
{
	echo "#include <$1>" | "$CC" -D_GNU_SOURCE -include stdio.h -E - >/dev/null 2>&1 || need "$2"
}

tool "$CC" gcc
tool "$CLANG" clang
tool "$BPFTOOL" bpftool
if command -v "$CC" >/dev/null 2>&1; then
	header stdlib.h libc6-dev
	header bpf/libbpf.h libbpf-dev
	header gelf.h libelf-dev
	header elfutils/libdwfl.h libdw-dev
	header libiberty/demangle.h libiberty-dev
	header zlib.h zlib1g-dev
	header lzma.h liblzma-dev
	header jansson.h libjansson-dev
	header libsmartcols/libsmartcols.h libsmartcols-dev
	header sys/capability.h libcap-dev
	header uthash.h uthash-dev
else
	missing="the packages listed in scripts/packages.sh"
fi

[ -z "$missing" ] && exit 0
echo "cannot build offcpu: missing${missing:+ }$(echo $missing); install: sudo scripts/install-deps.sh build" >&2
exit 1
