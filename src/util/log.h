/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * log: messages to stderr. One line each, prefixed with the program's name.
 *
 * An error is said once, by the layer that knows its cause, in the form
 * "cannot VERB 'thing': why; how to mend it". Text that comes from the target
 * (names, paths) is passed through log__safe() so that it cannot write control
 * sequences to the user's terminal.
 */
#ifndef OFFCPU_LOG_H
#define OFFCPU_LOG_H

enum log_level { LOG_QUIET, LOG_NORMAL, LOG_VERBOSE };

void log__set_level(enum log_level level);
enum log_level log__level(void);

/* An error: always printed. */
void log__error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* A warning: printed unless -q. */
void log__warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* A detail: printed with -v. */
void log__info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * Copies 'text' with control characters and bytes that are not valid UTF-8 replaced by '?'. The
 * result lies in one of a few static buffers and is valid until the eighth next call.
 */
const char *log__safe(const char *text);

#endif
