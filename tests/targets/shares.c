/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * shares: one thread whose CPU time is spent in three functions in the ratio 10:5:1, in random
 * order so that no sampling rate can beat with it. The time of each is measured.
 */
#include "truth.h"

#define CHUNK_NS 300000

static FRAME void work_ten(void)
{
	truth__burn_ns(CHUNK_NS);
	AFTER_CALL();
}

static FRAME void work_five(void)
{
	truth__burn_ns(CHUNK_NS);
	AFTER_CALL();
}

static FRAME void work_one(void)
{
	truth__burn_ns(CHUNK_NS);
	AFTER_CALL();
}

static FRAME void work(uint64_t spent[3])
{
	int dice = rand() % 16;
	int which = dice < 10 ? 0 : dice < 15 ? 1 : 2;
	uint64_t start = truth__cpu();

	if (which == 0)
		work_ten();
	else if (which == 1)
		work_five();
	else
		work_one();
	spent[which] += truth__cpu() - start;
}

int main(void)
{
	uint64_t spent[3] = {0};

	truth__init();
	truth__ready();
	while (!truth__stop)
		work(spent);
	printf("{\"work_ten\": %llu, \"work_five\": %llu, \"work_one\": %llu}\n",
	       (unsigned long long)spent[0], (unsigned long long)spent[1],
	       (unsigned long long)spent[2]);
	return 0;
}
