// SPDX-License-Identifier: GPL-2.0-or-later
#include "where.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "profile.h"
#include "units.h"

#define NAME_SIZE 512

/* A '*' at the end stands for anything. Suffixes such as .isra.0 are not compared. */
static const char *const kernel_plumbing[] = {
	/* the scheduler, and waiting in general */
	"__schedule",
	"schedule",
	"schedule_*",
	"io_schedule*",
	"preempt_schedule*",
	"__cond_resched",
	"dynamic_*",
	"poll_schedule_timeout",
	"wait_woken",
	"__wait_for_common",
	"bit_wait*",
	"__wait_on_bit*",
	"out_of_line_wait_on_bit*",
	"folio_wait_bit*",
	"do_wait_intr*",
	"__switch_to",
	"context_switch",
	/* x86: system calls, interrupts and the way back to user space */
	"entry_SYSCALL*",
	"entry_SYSENTER*",
	"do_syscall_*",
	"x64_sys_call",
	"ia32_sys_call",
	"do_int80*",
	"__do_fast_syscall*",
	"syscall_exit_*",
	"exit_to_user_mode*",
	"irqentry_*",
	"raw_irqentry_*",
	"asm_*",
	"sysvec_*",
	"__sysvec_*",
	"ret_from_fork*",
	"common_interrupt",
	/* arm64 */
	"el0*",
	"invoke_syscall*",
	"do_el0_svc*",
	"do_notify_resume",
	"ret_to_user",
	NULL,
};

static const char *const kernel_locks[] = {
	"mutex_lock*",	"__mutex_lock*",  "rwsem_*",
	"down_*",	"__down*",	  "rt_mutex_*",
	"__rt_mutex_*", "percpu_rwsem_*", "wait_for_completion*",
	NULL,
};

/* From the thread's entry to the first function of the program's own. */
static const char *const user_plumbing[] = {
	"_start",
	"__libc_start_main*",
	"__libc_start_call_main",
	"start_thread",
	"clone",
	"__clone",
	"clone3",
	"__clone3",
	"__clone_internal",
	NULL,
};

static bool matches(const char *name, const char *pattern)
{
	size_t len = strcspn(pattern, "*");

	if (strncmp(name, pattern, len) != 0)
		return false;
	return pattern[len] == '*' || !name[len] || name[len] == '.';
}

static bool listed(const char *name, const char *const *list)
{
	for (; *list; list++)
		if (matches(name, *list))
			return true;
	return false;
}

enum where_role where__role(const struct frame *frame)
{
	if (frame->kind == FRAME_KERNEL && listed(frame->func, kernel_plumbing))
		return WHERE_PLUMBING;
	if (frame->kind == FRAME_KERNEL && listed(frame->func, kernel_locks))
		return WHERE_LOCK;
	if (frame->kind == FRAME_USER && listed(frame->func, user_plumbing))
		return WHERE_PLUMBING;
	return WHERE_TELLING;
}

static enum where_role cached_role(const struct frame *frame, uint8_t *roles)
{
	uint8_t *role = &roles[profile__frame_id(frame)];

	if (*role == WHERE_UNKNOWN)
		*role = where__role(frame);
	return *role;
}

bool where__is_unnamed(const struct frame *frame)
{
	const char *plus = strrchr(frame->func, '+');

	if (!plus || strncmp(plus, "+0x", 3) != 0 || !isxdigit((unsigned char)plus[3]))
		return false;
	return !plus[3 + strspn(plus + 3, "0123456789abcdef")];
}

/* Whether frame i is an unnamed helper of a named function of the same file, as the system call in
 * a stripped libc's pthread_cond_wait is. */
static bool is_helper(const struct frame **frames, uint32_t i)
{
	const char *module = frames[i]->module;

	if (!where__is_unnamed(frames[i]))
		return false;
	while (i-- > 0 && frames[i]->kind == FRAME_USER && frames[i]->module == module)
		if (!where__is_unnamed(frames[i]))
			return true;
	return false;
}

static bool has_user_frame(const struct frame **frames, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (frames[i]->kind == FRAME_USER || frames[i]->kind == FRAME_JIT)
			return true;
	return false;
}

static uint32_t pick_all(const struct frame **frames, uint32_t n, const struct frame **out)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		out[i] = frames[n - 1 - i];
	return n;
}

uint32_t where__pick(const struct frame **frames, uint32_t n, bool on_cpu, uint8_t *roles,
		     const struct frame **out)
{
	bool want_kernel = true, want_lock = true, all_kernel = !has_user_frame(frames, n);
	bool user = false; /* picked one */
	uint32_t i, picked = 0;

	for (i = n; i-- > 0;) {
		const struct frame *frame = frames[i];
		enum where_role role = cached_role(frame, roles);

		if (role == WHERE_PLUMBING && !(on_cpu && i == n - 1))
			continue;
		if (frame->kind == FRAME_KERNEL) {
			if (!want_kernel || (role == WHERE_LOCK && !want_lock))
				continue;
			want_lock = false;
			want_kernel = all_kernel || role == WHERE_LOCK;
		} else if (!user && !on_cpu && is_helper(frames, i)) {
			continue;
		} else {
			user = true;
		}
		out[picked++] = frame;
	}
	return picked ? picked : pick_all(frames, n, out);
}

/* Writing into a buffer that may be too small: what does not fit is left out. */
struct sink {
	char *out;
	size_t len, size;
};

static void put(struct sink *s, const char *text, size_t len)
{
	if (s->len + len + 1 > s->size)
		return;
	memcpy(s->out + s->len, text, len);
	s->len += len;
	s->out[s->len] = 0;
}

static bool ends_with(const struct sink *s, const char *word)
{
	size_t len = strlen(word);

	return s->len >= len && memcmp(s->out + s->len - len, word, len) == 0;
}

/* Length of the group that begins at 'text' with 'open', its end included; to the end of the text
 * if it is never closed. "->" closes nothing. */
static size_t group_length(const char *text, char open, char close)
{
	size_t i, depth = 0;

	for (i = 0; text[i]; i++) {
		if (text[i] == open)
			depth++;
		else if (text[i] == close && !(close == '>' && text[i - 1] == '-') && !--depth)
			return i + 1;
	}
	return i;
}

/* operator<<, operator()(int) and the like: the operator itself is part of the name. */
static size_t put_operator(struct sink *s, const char *text)
{
	size_t len = strncmp(text, "()", 2) == 0 ? 2 : strspn(text, "<>=-+*/%^&|~!,[]");

	/* operator< <int>: the space keeps them apart */
	if (text[len] == ' ' && text[len + 1] == '<')
		len++;
	put(s, text, len);
	return len;
}

/* "(anonymous namespace)" and Go's "main.(*T).Method" are part of the name, parameters are not. */
static size_t put_parentheses(struct sink *s, const char *text)
{
	size_t len = group_length(text, '(', ')');

	if (strncmp(text, "(anonymous", 10) == 0 || ends_with(s, "."))
		put(s, text, len);
	return len;
}

/* Template arguments are left out, but Rust's leading "<T as Trait>" is what the name is about. */
static size_t put_angles(struct sink *s, const char *text)
{
	size_t len = group_length(text, '<', '>');

	if (!s->len) {
		put(s, text, len);
		return len;
	}
	put(s, "<", 1);
	put(s, signs()->ellipsis, strlen(signs()->ellipsis));
	put(s, ">", 1);
	return len;
}

/* A return type stands before the name of a template function: "void f<int>(int)". */
static void drop_return_type(struct sink *s)
{
	size_t i, start = 0, depth = 0;

	for (i = 0; i < s->len; i++) {
		if (strchr("<({[", s->out[i]))
			depth++;
		else if (strchr(">)}]", s->out[i]) && depth)
			depth--;
		else if (s->out[i] == ' ' && !depth)
			start = i + 1;
		if (strncmp(s->out + i, "operator", 8) == 0)
			break;
	}
	memmove(s->out, s->out + start, s->len - start + 1);
	s->len -= start;
}

static void shorten(struct sink *s, const char *text)
{
	bool function = false; /* has parameters: not a C name, which is left alone */

	while (*text) {
		if (ends_with(s, "operator") && ispunct((unsigned char)*text) && *text != '_') {
			text += put_operator(s, text);
		} else if (*text == '<') {
			text += put_angles(s, text);
		} else if (*text == '(') {
			function = true;
			text += put_parentheses(s, text);
		} else if (strncmp(text, "[abi:", 5) == 0) {
			text += group_length(text, '[', ']');
		} else if (strncmp(text, " [clone", 7) == 0 ||
			   (function && strncmp(text, " const", 6) == 0)) {
			text += strcspn(text + 1, " :") + 1;
			if (*text == ' ' && text[1] == '.')
				text += strcspn(text, "]") + 1;
		} else {
			put(s, text++, 1);
		}
	}
	if (function)
		drop_return_type(s);
}

void where__short_name(char *out, size_t size, const struct frame *frame)
{
	char clean[NAME_SIZE * 2];
	struct sink s = {.out = out, .size = size};

	text__show(clean, sizeof(clean), frame->func);
	out[0] = 0;
	if (frame->kind == FRAME_USER)
		shorten(&s, clean);
	if (!s.len)
		put(&s, clean, strnlen(clean, size - 1));
	if (!s.len)
		put(&s, "?", 1);
}

void where__format(char *out, size_t size, const struct frame **picked, uint32_t n, size_t width)
{
	struct sink s = {.out = out, .size = size};
	char name[NAME_SIZE], arrow[8], more[16];
	size_t used = 0, need;
	uint32_t i;

	snprintf(arrow, sizeof(arrow), " %s ", signs()->arrow);
	snprintf(more, sizeof(more), "%s%s", arrow, signs()->ellipsis);
	out[0] = 0;
	for (i = 0; i < n; i++) {
		size_t reserve = i + 1 < n ? text__width(more) : 0;

		where__short_name(name, sizeof(name), picked[i]);
		if (!i && width > reserve)
			text__fit(name, sizeof(name), width - reserve);
		need = text__width(name) + (i ? text__width(arrow) : 0);
		if (i && used + need + reserve > width) {
			put(&s, more, strlen(more));
			return;
		}
		if (i)
			put(&s, arrow, strlen(arrow));
		put(&s, name, strlen(name));
		used += need;
	}
}
