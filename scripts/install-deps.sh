#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Installs the Debian packages of the given groups (build static check kernels bench) that are not
# installed yet. Quiet, and without effect when nothing is missing.
set -eu

. "$(dirname "$0")/packages.sh"

wanted=
for group in "${@:-build}"; do
	case $group in
	build | static | check | kernels | bench) eval "wanted=\"\$wanted \$$group\"" ;;
	*)
		echo "usage: $0 [build|static|check|kernels|bench]..." >&2
		exit 2
		;;
	esac
done

if ! command -v dpkg-query >/dev/null 2>&1; then
	echo "install-deps: no dpkg here; please install the equivalents of:" $wanted >&2
	exit 0
fi

missing=
for package in $wanted; do
	status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
	[ "$status" = installed ] || missing="$missing $package"
done
[ -z "$missing" ] && exit 0

if [ "$(id -u)" != 0 ]; then
	echo "cannot install$missing: not root; run it with sudo" >&2
	exit 1
fi

echo "installing$missing"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# A server that a package brings along is for the tests to start, not for the system.
if [ ! -e /usr/sbin/policy-rc.d ]; then
	printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
	chmod 755 /usr/sbin/policy-rc.d
	trap 'rm -f "$log" /usr/sbin/policy-rc.d' EXIT
fi
install()
{
	apt-get -qq -o Dpkg::Use-Pty=0 install --no-install-recommends $missing >"$log" 2>&1
}
if ! install; then
	apt-get -qq update >>"$log" 2>&1 || true
	if ! install; then
		tail -n 5 "$log" >&2
		echo "cannot install$missing: apt-get failed (see above)" >&2
		exit 1
	fi
fi
