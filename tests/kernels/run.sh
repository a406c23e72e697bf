#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# run.sh [VERSION]: boots Debian's newest cloud kernel of that version (6.1 by default) under qemu with
# an initramfs that holds the tool and a few workloads, records them there, and checks here what came
# out over the serial console. Prints a line PASS, FAIL or SKIP per check, and DONE.
set -u
cd "$(dirname "$0")/../.." || exit 1

version=${1:-6.1}
cache=build/kernels
work=$cache/$version
limit=240	# seconds for the whole boot, emulated
mkdir -p $cache/deb "$work"

# One at a time: the files under $work are shared.
exec 9>$cache/lock
flock 9

end()	# line
{
	echo "$1"
	echo DONE
	exit 0
}

newest()
{
	apt-cache search --names-only "^linux-image-$version(\\.|-).*cloud-amd64\$" |
		cut -d' ' -f1 | sort -V | tail -n 1
}

[ "$(uname -m)" = x86_64 ] || end "SKIP kernel $version: the image is for x86-64"
for tool in qemu-system-x86_64 busybox; do
	command -v $tool >/dev/null 2>&1 || end "SKIP kernel $version: no $tool"
done

# --- the kernel
if ! ls $cache/deb/linux-image-"$version"[.-]*cloud-amd64_*.deb >/dev/null 2>&1; then
	[ -n "$(newest)" ] || apt-get -qq update >/dev/null 2>&1
	package=$(newest)
	[ -n "$package" ] || end "SKIP kernel $version: no package of it is known to apt"
	(cd $cache/deb && { apt-get -qq download "$package" || {
		apt-get -qq update && apt-get -qq download "$package"; }; }) >"$work/download.log" 2>&1 ||
		end "SKIP kernel $version: cannot download $package"
fi
deb=$(ls $cache/deb/linux-image-"$version"[.-]*cloud-amd64_*.deb | sort -V | tail -n 1)
if [ ! -e "$work/vmlinuz" ] || [ "$deb" -nt "$work/vmlinuz" ]; then
	dpkg-deb --fsys-tarfile "$deb" | tar -xO --wildcards './boot/vmlinuz-*' >"$work/vmlinuz" ||
		end "FAIL kernel $version: no kernel in $deb"
fi

# --- the initramfs
make -s STATIC=1 all >&2 || end "FAIL kernel $version: the static build"
targets="sleeper pingpong parked"
for target in $targets; do
	make -s B=$cache/static TARGET_CFLAGS=-static $cache/static/targets/$target >&2 ||
		end "FAIL kernel $version: the build of $target"
done

root=$work/root
rm -rf "$root"
mkdir -p "$root/bin" "$root/proc" "$root/sys" "$root/dev" "$root/tmp" "$root/root"
cp "$(command -v busybox)" "$root/bin/busybox"
cp build/offcpu-static "$root/bin/offcpu"
# The few libraries without a static version, if any.
ldd build/offcpu-static 2>/dev/null | grep -o '/[^ ]*' | while read -r library; do
	mkdir -p "$root$(dirname "$library")"
	cp -L "$library" "$root$library"
done
for target in $targets; do
	cp $cache/static/targets/$target "$root/bin/"
done
cp tests/kernels/init "$root/init"
chmod 755 "$root/init"
(cd "$root" && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1) >"$work/initramfs.gz"

# --- boot
timeout $limit qemu-system-x86_64 -accel tcg -cpu max -smp 2 -m 1024 -nographic \
	-no-reboot -nic none -kernel "$work/vmlinuz" -initrd "$work/initramfs.gz" \
	-append "console=ttyS0 quiet panic=-1" </dev/null >"$work/console" 2>"$work/qemu.log" 9>&-
[ $? = 124 ] && echo "FAIL kernel $version: did not end within $limit s"

python=$(command -v /usr/bin/python3 || echo python3)
$python tests/kernels/verdict.py "$version" "$work/console" || end "FAIL kernel $version: no verdict"
echo DONE
