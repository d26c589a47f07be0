/* SPDX-License-Identifier: MIT
 *
 * The log of calls: a failure that has said nothing yet says at least its status. */
#include "library.h"

#include <stdarg.h>
#include <stdio.h>

#define MESSAGE_BYTES 512

static const char *const call_names[API_CALLS] = {
#define API_NAME(name, required) "rknn_" #name,
    RKNN_FUNCTIONS(API_NAME)
#undef API_NAME
};
/* Whether the call in progress on this thread has logged anything. */
static _Thread_local bool has_logged;

const char *api_call_name(api_call call) {
    return call_names[call];
}

void api_begin_call(bool is_logged) {
    has_logged = is_logged;
}

bool api_has_logged(void) {
    return has_logged;
}

int api_leave(api_call call, int status) {
    if (status != RKNN_SUCC && !has_logged) {
        api_log(status == RKNN_ERR_MALLOC_FAIL ? "%s: no memory" : "%s fails with %d",
                call_names[call], status);
    }
    return status;
}

static void say(bool is_violation, const char *format, va_list arguments) {
    char text[MESSAGE_BYTES];
    vsnprintf(text, sizeof text, format, arguments);
    has_logged = true;
    api_write_log(is_violation, text);
}

void api_log(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say(false, format, arguments);
    va_end(arguments);
}

void api_violation(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say(true, format, arguments);
    va_end(arguments);
}
