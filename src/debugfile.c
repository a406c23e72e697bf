// SPDX-License-Identifier: GPL-2.0-or-later
#include "debugfile.h"

#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <gelf.h>
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "debuginfod.h"
#include "util/rootfs.h"
#include "util/xalloc.h"

#define DEBUG_DIR     "/usr/lib/debug"
#define MAX_BUILD_ID  64
#define MAX_MINI_SIZE (64UL << 20)
#define MAX_LZMA_MEM  (128UL << 20)

struct build_id {
	uint8_t bytes[MAX_BUILD_ID];
	size_t len;
};

bool elf_file__open(struct elf_file *file, int fd)
{
	memset(file, 0, sizeof(*file));
	elf_version(EV_CURRENT);
	/* private: libelf unpacks compressed sections in place */
	file->elf = elf_begin(fd, ELF_C_READ_MMAP_PRIVATE, NULL);
	file->fd = fd;
	if (elf_kind(file->elf) == ELF_K_ELF)
		return true;
	elf_file__close(file);
	return false;
}

bool elf_file__open_image(struct elf_file *file, const void *image, size_t size)
{
	memset(file, 0, sizeof(*file));
	elf_version(EV_CURRENT);
	file->elf = elf_memory((char *)image, size);
	file->fd = -1;
	if (elf_kind(file->elf) == ELF_K_ELF)
		return true;
	elf_file__close(file);
	return false;
}

void elf_file__close(struct elf_file *file)
{
	if (file->elf)
		elf_end(file->elf);
	if ((file->elf || file->fd > 0) && file->fd >= 0)
		close(file->fd);
	free(file->memory);
	memset(file, 0, sizeof(*file));
}

static Elf_Scn *find_section(Elf *elf, const char *name)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;
	size_t names;

	if (elf_getshdrstrndx(elf, &names))
		return NULL;
	while ((scn = elf_nextscn(elf, scn))) {
		const char *found;

		if (!gelf_getshdr(scn, &shdr) || shdr.sh_type == SHT_NOBITS)
			continue;
		found = elf_strptr(elf, names, shdr.sh_name);
		if (found && !strcmp(found, name))
			return scn;
	}
	return NULL;
}

bool elf_file__has_section(const struct elf_file *file, const char *name)
{
	return find_section(file->elf, name);
}

static bool find_id_note(Elf_Data *data, struct build_id *id)
{
	size_t at = 0, name, desc;
	GElf_Nhdr note;

	while (data && (at = gelf_getnote(data, at, &note, &name, &desc))) {
		if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != sizeof("GNU") ||
		    memcmp((char *)data->d_buf + name, "GNU", sizeof("GNU")))
			continue;
		if (!note.n_descsz || note.n_descsz > MAX_BUILD_ID)
			continue;
		memcpy(id->bytes, (char *)data->d_buf + desc, note.n_descsz);
		id->len = note.n_descsz;
		return true;
	}
	return false;
}

/* By section, as the segments' offsets mean nothing in a separate debug file. */
static bool find_build_id(Elf *elf, struct build_id *id)
{
	Elf_Scn *scn = NULL;
	const void *bytes;
	GElf_Shdr shdr;
	ssize_t len;

	while ((scn = elf_nextscn(elf, scn)))
		if (gelf_getshdr(scn, &shdr) && shdr.sh_type == SHT_NOTE &&
		    find_id_note(elf_getdata(scn, NULL), id))
			return true;
	len = dwelf_elf_gnu_build_id(elf, &bytes);
	if (len <= 0 || len > MAX_BUILD_ID)
		return false;
	memcpy(id->bytes, bytes, len);
	id->len = len;
	return true;
}

static bool same_id(const struct build_id *id, const void *bytes, size_t len)
{
	return id->len == len && !memcmp(id->bytes, bytes, len);
}

static bool same_machine(Elf *a, Elf *b)
{
	GElf_Ehdr x, y;

	return gelf_getehdr(a, &x) && gelf_getehdr(b, &y) && x.e_machine == y.e_machine &&
	       x.e_ident[EI_CLASS] == y.e_ident[EI_CLASS] &&
	       x.e_ident[EI_DATA] == y.e_ident[EI_DATA];
}

/* Opens 'path' in the root of 'pid'; the file must have the build ID. */
static bool open_by_id(pid_t pid, const char *path, const void *id, size_t len,
		       struct elf_file *file)
{
	struct build_id found = {.len = 0};
	int root = rootfs__open(pid), fd;

	if (root < 0)
		return false;
	fd = rootfs__open_file(root, path, true, NULL);
	close(root);
	if (fd < 0 || !elf_file__open(file, fd))
		return false;
	if (find_build_id(file->elf, &found) && same_id(&found, id, len))
		return true;
	elf_file__close(file);
	return false;
}

static void id_path(char *path, size_t size, const uint8_t *id, size_t len)
{
	int at = snprintf(path, size, "%s/.build-id/%02x/", DEBUG_DIR, id[0]);

	for (size_t i = 1; i < len; i++)
		at += snprintf(path + at, size - at, "%02x", id[i]);
	snprintf(path + at, size - at, ".debug");
}

static bool find_by_id(pid_t pid, const void *id, size_t len, struct elf_file *file)
{
	char path[sizeof(DEBUG_DIR) + 2 * MAX_BUILD_ID + 32];

	if (len < 2 || len > MAX_BUILD_ID)
		return false;
	id_path(path, sizeof(path), id, len);
	return (pid && open_by_id(pid, path, id, len, file)) || open_by_id(0, path, id, len, file);
}

/* CRC-32 of a file, as .gnu_debuglink has it. */
static bool has_crc(int fd, GElf_Word want)
{
	unsigned char buf[64 * 1024];
	unsigned long crc = crc32(0, NULL, 0);
	off_t at = 0;
	ssize_t n;

	while ((n = pread(fd, buf, sizeof(buf), at)) > 0) {
		crc = crc32(crc, buf, n);
		at += n;
	}
	return !n && crc == want;
}

/* The build ID decides; where one of the two files has none, the checksum. */
static bool belongs(const struct debug_query *query, const struct elf_file *file, GElf_Word crc)
{
	struct build_id own = {.len = 0}, other = {.len = 0};

	if (!same_machine(query->elf, file->elf))
		return false;
	if (find_build_id(query->elf, &own) && find_build_id(file->elf, &other))
		return same_id(&own, other.bytes, other.len);
	return has_crc(file->fd, crc);
}

static bool open_link(const struct debug_query *query, int root, const char *path, GElf_Word crc,
		      struct elf_file *file)
{
	int fd = rootfs__open_file(root, path, true, NULL);

	if (fd < 0 || !elf_file__open(file, fd))
		return false;
	if (belongs(query, file, crc))
		return true;
	elf_file__close(file);
	return false;
}

/* The places where gdb looks for the file that .gnu_debuglink names. */
static bool find_link_in(const struct debug_query *query, pid_t pid, const char *name,
			 GElf_Word crc, struct elf_file *file)
{
	static const struct {
		const char *root, *dir;
	} places[] = {{"", "/"}, {"", "/.debug/"}, {DEBUG_DIR, "/"}};
	const char *slash = strrchr(query->path, '/');
	int root = rootfs__open(pid);
	bool found = false;

	for (size_t i = 0; slash && root >= 0 && !found && i < 3; i++) {
		char *path = xasprintf("%s%.*s%s%s", places[i].root, (int)(slash - query->path),
				       query->path, places[i].dir, name);

		found = strcmp(path, query->path) && open_link(query, root, path, crc, file);
		free(path);
	}
	if (root >= 0)
		close(root);
	return found;
}

static bool find_by_link(const struct debug_query *query, struct elf_file *file)
{
	GElf_Word crc;
	const char *name = dwelf_elf_gnu_debuglink(query->elf, &crc);

	if (!name || !*name || strchr(name, '/'))
		return false;
	return (query->pid && find_link_in(query, query->pid, name, crc, file)) ||
	       find_link_in(query, 0, name, crc, file);
}

static bool ask_servers(const struct debug_query *query, const struct build_id *id,
			struct elf_file *file)
{
	struct build_id found = {.len = 0};
	int fd = debuginfod__find(id->bytes, id->len);

	if (fd < 0 || !elf_file__open(file, fd))
		return false;
	if (same_machine(query->elf, file->elf) && find_build_id(file->elf, &found) &&
	    same_id(&found, id->bytes, id->len))
		return true;
	elf_file__close(file);
	return false;
}

bool debugfile__find(const struct debug_query *query, struct elf_file *file)
{
	struct build_id id = {.len = 0};
	bool known = find_build_id(query->elf, &id);

	if (known && find_by_id(query->pid, id.bytes, id.len, file)) {
		if (same_machine(query->elf, file->elf))
			return true;
		elf_file__close(file);
	}
	return find_by_link(query, file) ||
	       (known && query->debuginfod && ask_servers(query, &id, file));
}

bool debugfile__find_alt(const struct debug_query *query, const char *name, const void *build_id,
			 size_t build_id_len, struct elf_file *file)
{
	const char *tail = strstr(name, "/.dwz/");
	char *path;
	bool found;

	if (find_by_id(query->pid, build_id, build_id_len, file))
		return true;
	if (!tail)
		return false;
	path = xasprintf("%s%s", DEBUG_DIR, tail);
	found = (query->pid && open_by_id(query->pid, path, build_id, build_id_len, file)) ||
		open_by_id(0, path, build_id, build_id_len, file);
	free(path);
	return found;
}

/* The size of the result is not known beforehand: twice as much until it fits, or is too much. */
static void *unpack(const Elf_Data *packed, size_t *size)
{
	for (size_t room = 1 << 20; room <= MAX_MINI_SIZE; room *= 2) {
		uint64_t memory = MAX_LZMA_MEM;
		size_t in = 0, out = 0;
		uint8_t *buf = xmalloc(room);
		lzma_ret ret;

		ret = lzma_stream_buffer_decode(&memory, 0, NULL, packed->d_buf, &in,
						packed->d_size, buf, &out, room);
		if (ret == LZMA_OK) {
			*size = out;
			return buf;
		}
		free(buf);
		if (ret != LZMA_BUF_ERROR)
			break;
	}
	return NULL;
}

bool debugfile__unpack_mini(Elf *elf, struct elf_file *file)
{
	Elf_Scn *scn = find_section(elf, ".gnu_debugdata");
	Elf_Data *packed = scn ? elf_rawdata(scn, NULL) : NULL;
	size_t size;
	void *image = packed && packed->d_buf ? unpack(packed, &size) : NULL;

	if (!image)
		return false;
	if (elf_file__open_image(file, image, size)) {
		file->memory = image;
		return true;
	}
	free(image);
	return false;
}
