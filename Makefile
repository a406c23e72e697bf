# SPDX-License-Identifier: GPL-2.0-or-later
# make           build/offcpu          make STATIC=1   build/offcpu-static
# make demo      record a bundled workload            make check      all tests
# V=1 shows commands, WERROR=1 makes warnings errors, SAN=1 builds with ASan + UBSan in build/san.

B        ?= $(if $(SAN),build/san,build)
PREFIX   ?= /usr/local
CC       ?= gcc
CLANG    ?= clang
BPFTOOL  ?= $(firstword $(wildcard /usr/sbin/bpftool /usr/local/sbin/bpftool) bpftool)
ARCH     := $(patsubst aarch64,arm64,$(patsubst x86_64,x86,$(shell uname -m)))
VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo 0.1)

Q   := $(if $(V),,@)
say  = $(if $(V),@:,@printf '  %-8s %s\n' $(1) $(2))

CPPFLAGS += -D_GNU_SOURCE -Isrc -Ibpf -I$(B)
OPT      ?= -O2 -g
CFLAGS   += -std=gnu11 $(OPT) -Wall -Wextra $(if $(WERROR),-Werror) \
	    $(if $(SAN),-fsanitize=address$(,)undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
LDFLAGS  += $(if $(SAN),-fsanitize=address$(,)undefined)
BPFFLAGS := -g -O2 -target bpf -mcpu=v3 -Wall $(if $(WERROR),-Werror) \
	    -D__TARGET_ARCH_$(ARCH) -Ivmlinux/$(ARCH) -Ibpf
LIBS     := -lbpf -ldw -lelf -liberty -ljansson -lcap -llzma -lz
# What the static archives of libdw and libelf need besides. libsmartcols has none in Debian.
STATIC_LIBS := -Wl,-Bstatic $(LIBS) -lbz2 -Wl,-Bdynamic -lsmartcols
,        := ,

# Only the first three may include libbpf's headers; all the rest links into unit tests.
BIN_SRCS := src/main.c src/capture.c src/kernel.c
SRCS     := $(wildcard src/*.c src/util/*.c)
LIB_OBJS := $(patsubst %.c,$(B)/%.o,$(filter-out $(BIN_SRCS),$(SRCS)))
BIN_OBJS := $(patsubst %.c,$(B)/%.o,$(filter $(BIN_SRCS),$(SRCS)))
BPF_OBJS := $(patsubst bpf/%.bpf.c,$(B)/bpf/%.bpf.o,$(wildcard bpf/*.bpf.c))
TARGETS  := $(patsubst tests/targets/%.c,$(B)/targets/%,$(wildcard tests/targets/*.c))
UNITS    := $(patsubst tests/%.c,$(B)/tests/%,$(wildcard tests/unit/test_*.c tests/golden/test_*.c))
BIN      := $(B)/offcpu$(if $(STATIC),-static)

.PHONY: all install clean demo check check-unit check-golden check-live check-kernels bench \
	vmlinux format targets units lib bpf
.DELETE_ON_ERROR:
.SECONDARY:

all: $(BIN)
lib: $(B)/liboffcpu.a
bpf: $(B)/offcpu.skel.h
targets: $(TARGETS)
units: $(UNITS)

$(B)/deps.ok: scripts/probe-deps.sh
	@mkdir -p $(@D)
	@CC='$(CC)' CLANG='$(CLANG)' BPFTOOL='$(BPFTOOL)' scripts/probe-deps.sh
	@touch $@

# --- BPF: objects, linked into one, embedded by skeleton
$(B)/bpf/%.bpf.o: bpf/%.bpf.c | $(B)/deps.ok
	$(call say,CLANG,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(BPFFLAGS) -MMD -MP -c $< -o $@

$(B)/offcpu.bpf.o: $(BPF_OBJS)
	$(call say,BPFTOOL,$@)
	$(Q)$(BPFTOOL) gen object $@ $^

$(B)/offcpu.skel.h: $(B)/offcpu.bpf.o
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name offcpu_bpf > $@

# --- user side
$(B)/src/%.o: src/%.c Makefile | $(B)/deps.ok
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

$(B)/src/capture.o $(B)/src/kernel.o: $(B)/offcpu.skel.h
$(B)/src/main.o $(B)/src/cli.o: CPPFLAGS += -DOFFCPU_VERSION='"$(VERSION)"'

$(B)/liboffcpu.a: $(LIB_OBJS)
	$(call say,AR,$@)
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

$(B)/offcpu: $(BIN_OBJS) $(B)/liboffcpu.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS) -lsmartcols

$(B)/offcpu-static: $(BIN_OBJS) $(B)/liboffcpu.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(STATIC_LIBS)

# --- tests
# Workloads keep frame pointers, also in leaf functions, so that their stacks are known.
TARGET_FP := -fno-omit-frame-pointer $(if $(filter x86,$(ARCH)),-mno-omit-leaf-frame-pointer)
$(B)/targets/%: tests/targets/%.c $(wildcard tests/targets/*.h) Makefile | $(B)/deps.ok
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE -O2 -g $(TARGET_FP) -Wall -Wextra \
		$(if $(WERROR),-Werror) $(TARGET_CFLAGS) -o $@ $< -pthread -lm

$(B)/tests/%: tests/%.c $(B)/liboffcpu.a Makefile
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -Itests/unit $(CFLAGS) $(LDFLAGS) -MMD -MP -MF $@.d -o $@ $< \
		$(B)/liboffcpu.a $(LIBS) -lsmartcols -lcmocka

check:
	@scripts/check.sh
check-unit:
	@scripts/check.sh unit
check-golden:
	@scripts/check.sh golden
check-live:
	@scripts/check.sh live
check-kernels:
	@scripts/check.sh kernels
demo:
	@scripts/demo.sh
bench: all targets
	@tests/bench/run.sh

# --- the rest
install: all
	install -D -m 755 $(BIN) $(DESTDIR)$(PREFIX)/bin/offcpu
	install -D -m 644 LICENSE $(DESTDIR)$(PREFIX)/share/doc/offcpu/LICENSE
	install -D -m 644 README.md $(DESTDIR)$(PREFIX)/share/doc/offcpu/README.md

# Kernel types as of the running kernel; the file is checked in.
vmlinux:
	@mkdir -p vmlinux/$(ARCH)
	$(BPFTOOL) btf dump file /sys/kernel/btf/vmlinux format c > vmlinux/$(ARCH)/vmlinux.h.new
	mv vmlinux/$(ARCH)/vmlinux.h.new vmlinux/$(ARCH)/vmlinux.h

format:
	clang-format -i $(wildcard src/*.[ch] src/util/*.[ch] bpf/*.[ch] tests/*/*.[ch])

clean:
	rm -rf build

-include $(LIB_OBJS:.o=.d) $(BIN_OBJS:.o=.d) $(BPF_OBJS:.o=.d) $(UNITS:=.d)
