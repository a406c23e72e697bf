// SPDX-License-Identifier: GPL-2.0-or-later
#include "util/text.h"

#include <string.h>

/* Length of the well-formed UTF-8 sequence at 'p', or 0 (RFC 3629, table in section 4). */
static size_t utf8_length(const unsigned char *p)
{
	size_t len, i;

	if (p[0] < 0x80)
		return 1;
	if (p[0] >= 0xc2 && p[0] <= 0xdf)
		len = 2;
	else if (p[0] >= 0xe0 && p[0] <= 0xef)
		len = 3;
	else if (p[0] >= 0xf0 && p[0] <= 0xf4)
		len = 4;
	else
		return 0;
	for (i = 1; i < len; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	/* overlong forms, surrogates, beyond U+10FFFF */
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
	    (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return len;
}

size_t text__printable(char *out, size_t size, const char *in)
{
	const unsigned char *p = (const unsigned char *)in;
	size_t n = 0;

	if (!size)
		return 0;
	while (*p) {
		size_t len = utf8_length(p);
		int control = *p < 0x20 || *p == 0x7f || (*p == 0xc2 && p[1] < 0xa0);

		if (len && control) {
			p += len;
			len = 0;
		} else if (!len) {
			p++;
		}
		if (n + (len ? len : 1) >= size)
			break;
		if (len) {
			memcpy(out + n, p, len);
			p += len;
			n += len;
		} else {
			out[n++] = '?';
		}
	}
	out[n] = 0;
	return n;
}
