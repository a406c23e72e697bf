// SPDX-License-Identifier: GPL-2.0-or-later
#include "debuginfod.h"

#include <dlfcn.h>
#include <elfutils/debuginfod.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "util/log.h"

struct client {
	bool tried;
	debuginfod_client *handle; /* lives as long as the program */
	typeof(&debuginfod_find_debuginfo) find;
};

static void load(struct client *client)
{
	const char *urls = getenv(DEBUGINFOD_URLS_ENV_VAR);
	typeof(&debuginfod_begin) begin;
	void *library;

	client->tried = true;
	if (!urls || !*urls) {
		log__warn(
			"cannot ask debuginfod: no server is known; set " DEBUGINFOD_URLS_ENV_VAR);
		return;
	}
	library = dlopen("libdebuginfod.so.1", RTLD_LAZY);
	if (!library) {
		log__warn("cannot ask debuginfod: cannot load 'libdebuginfod.so.1'; install "
			  "libdebuginfod1");
		return;
	}
	begin = (typeof(begin))dlsym(library, "debuginfod_begin");
	client->find = (typeof(client->find))dlsym(library, "debuginfod_find_debuginfo");
	if (begin && client->find)
		client->handle = begin();
}

int debuginfod__find(const uint8_t *build_id, size_t len)
{
	static struct client client;

	if (!client.tried)
		load(&client);
	if (!client.handle)
		return -ENOENT;
	return client.find(client.handle, build_id, len, NULL);
}
