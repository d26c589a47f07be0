/* SPDX-License-Identifier: MIT
 *
 * Controls of the simulated runtime for tests: failures on demand, latency, counters, a log. The
 * state belongs to the whole library, and has its own lock.
 *
 * Environment, read at the first call of any function:
 *   RKNN_SIM_FAIL        "function:nth:code[;function:nth:code...]"
 *   RKNN_SIM_LATENCY_US  microseconds per rknn_run
 *   RKNN_SIM_CACHES      "strict" or "coherent"; see rknn_sim_caches
 *   RKNN_SIM_SOC         "rk3588"; see rknn_sim_soc
 *   RKNN_SIM_LOG         "stderr", or a file that is appended to
 *   RKNN_LOG_LEVEL       other than 0: as RKNN_SIM_LOG=stderr if that is not set */
#define _POSIX_C_SOURCE 200809L
#include "sim/control.h"
#include "sim/cores.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FAILURES 64
#define MESSAGE_BYTES 512

typedef struct {
    api_call call;
    uint32_t nth; /* 0: every call */
    int code;
} failure;

static struct {
    pthread_mutex_t lock;
    failure failures[MAX_FAILURES];
    size_t n_failures;
    uint32_t latency_us;
    uint32_t speed[RKNN_SIM_MAX_CORES + 1]; /* permille, by the number of cores; 0: 1000 */
    bool is_strict;                         /* caches */
    bool said_caches;
    char soc[SIM_SOC_BYTES];
    int64_t calls[API_CALLS];
    uint64_t violations;
    char violation[MESSAGE_BYTES];
    char message[MESSAGE_BYTES];
    uint32_t alive[API_THINGS];
    char log_path[1024];
} control = {.lock = PTHREAD_MUTEX_INITIALIZER, .soc = "rk3588"};

pthread_mutex_t api_lock = PTHREAD_MUTEX_INITIALIZER;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void (*_Atomic collect)(void);

static int call_of(const char *function) {
    for (int call = 0; function != NULL && call < API_CALLS; call++) {
        if (strcmp(function, api_call_name((api_call)call)) == 0) {
            return call;
        }
    }
    return -1;
}

static void copy_text(char *out, size_t out_size, const char *text) {
    if (out != NULL && out_size > 0) {
        snprintf(out, out_size, "%s", text);
    }
}

/* With the lock held. */
static void write_log(const char *kind, const char *text) {
    copy_text(control.message, sizeof control.message, text);
    if (strcmp(control.log_path, "stderr") == 0) {
        fprintf(stderr, "rknn_sim %s: %s\n", kind, text);
    } else if (control.log_path[0] != '\0') {
        FILE *file = fopen(control.log_path, "ae");
        if (file != NULL) {
            fprintf(file, "rknn_sim %s: %s\n", kind, text);
            fclose(file);
        }
    }
}

static int add_failure(const char *function, uint32_t nth, int code) {
    const int call = call_of(function);
    if (call < 0) {
        return RKNN_ERR_PARAM_INVALID;
    }
    if (control.n_failures == MAX_FAILURES) {
        return RKNN_ERR_MALLOC_FAIL;
    }
    control.failures[control.n_failures++] = (failure){(api_call)call, nth, code};
    return RKNN_SUCC;
}

/* "function:nth:code", NUL-terminated. */
static bool parse_failure(char *text) {
    char *nth = strchr(text, ':');
    char *code = nth == NULL ? NULL : strchr(nth + 1, ':');
    if (code == NULL) {
        return false;
    }
    *nth++ = '\0';
    *code++ = '\0';
    char *nth_end, *code_end;
    errno = 0;
    const unsigned long number = strtoul(nth, &nth_end, 10);
    const long value = strtol(code, &code_end, 10);
    return errno == 0 && nth_end != nth && *nth_end == '\0' && code_end != code &&
           *code_end == '\0' && number <= UINT32_MAX && value >= INT32_MIN && value <= INT32_MAX &&
           add_failure(text, (uint32_t)number, (int)value) == RKNN_SUCC;
}

/* With the lock held. */
static bool set_soc(const char *name) {
    const size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789");
    if (length == 0 || length >= sizeof control.soc || name[length] != '\0') {
        return false;
    }
    copy_text(control.soc, sizeof control.soc, name);
    return true;
}

/* A child that is forked while another thread is in here must find the locks free. */
static void before_fork(void) {
    pthread_mutex_lock(&api_lock);
    pthread_mutex_lock(&control.lock);
}

static void after_fork(void) {
    pthread_mutex_unlock(&control.lock);
    pthread_mutex_unlock(&api_lock);
}

static void initialize(void) {
    pthread_atfork(before_fork, after_fork, after_fork);
    pthread_mutex_lock(&control.lock);
    const char *log = getenv("RKNN_SIM_LOG");
    const char *level = getenv("RKNN_LOG_LEVEL"); /* makes the vendor's runtimes print */
    const char *latency = getenv("RKNN_SIM_LATENCY_US");
    const char *failures = getenv("RKNN_SIM_FAIL");
    const char *caches = getenv("RKNN_SIM_CACHES");
    if (log == NULL) {
        log = level == NULL || strcmp(level, "0") == 0 ? "" : "stderr";
    }
    copy_text(control.log_path, sizeof control.log_path, log);
    if (latency != NULL) {
        char *end;
        errno = 0;
        const unsigned long value = strtoul(latency, &end, 10);
        if (errno != 0 || end == latency || *end != '\0' || value > UINT32_MAX) {
            write_log("error", "RKNN_SIM_LATENCY_US is not a number of microseconds");
        } else {
            control.latency_us = (uint32_t)value;
        }
    }
    if (caches != NULL && strcmp(caches, "strict") != 0 && strcmp(caches, "coherent") != 0) {
        write_log("error", "RKNN_SIM_CACHES is neither strict nor coherent");
    } else if (caches != NULL) {
        control.said_caches = true;
        control.is_strict = strcmp(caches, "strict") == 0;
    }
    const char *soc = getenv("RKNN_SIM_SOC");
    if (soc != NULL && !set_soc(soc)) {
        write_log("error", "RKNN_SIM_SOC is no name of a SoC, such as rk3588");
    }
    while (failures != NULL && *failures != '\0') {
        const size_t length = strcspn(failures, ";");
        char text[128];
        snprintf(text, sizeof text, "%.*s", (int)(length < sizeof text ? length : sizeof text),
                 failures);
        if (!parse_failure(text)) {
            write_log("error", "RKNN_SIM_FAIL is not function:nth:code[;...]");
        }
        failures += length + (failures[length] == ';');
    }
    pthread_mutex_unlock(&control.lock);
}

static void lock(void) {
    pthread_once(&once, initialize);
    pthread_mutex_lock(&control.lock);
}

static void unlock(void) {
    pthread_mutex_unlock(&control.lock);
}

void sim_collect_from(void (*function)(void)) {
    collect = function;
}

static void collect_violations(void) {
    void (*function)(void) = collect;
    if (function != NULL) {
        function();
    }
}

bool api_enter(api_call call, int *code) {
    collect_violations();
    lock();
    control.calls[call]++;
    bool fails = false;
    for (size_t i = 0; i < control.n_failures;) {
        failure *f = &control.failures[i];
        if (f->call == call && f->nth <= 1 && !fails) {
            fails = true;
            *code = f->code;
            if (f->nth == 1) {
                *f = control.failures[--control.n_failures];
                continue;
            }
        } else if (f->call == call && f->nth > 1) {
            f->nth--;
        }
        i++;
    }
    if (fails) {
        char text[MESSAGE_BYTES];
        snprintf(text, sizeof text, "%s fails with %d on demand", api_call_name(call), *code);
        write_log("note", text);
    }
    unlock();
    api_begin_call(fails);
    return fails;
}

void api_write_log(bool is_violation, const char *text) {
    lock();
    if (is_violation) {
        control.violations++;
        copy_text(control.violation, sizeof control.violation, text);
    }
    write_log(is_violation ? "violation" : "error", text);
    unlock();
}

bool sim_caches_are_strict(void) {
    lock();
    const bool is_strict = control.is_strict;
    unlock();
    return is_strict;
}

int64_t sim_latency_us(uint32_t cores) {
    lock();
    const int64_t latency_us = control.latency_us;
    const int64_t permille = cores > 1 && cores <= RKNN_SIM_MAX_CORES ? control.speed[cores] : 0;
    unlock();
    return permille != 0 ? latency_us * 1000 / permille : latency_us;
}

void api_count(api_thing thing, int change) {
    lock();
    control.alive[thing] += (uint32_t)change;
    unlock();
}

const char *rknn_sim_version(void) {
    return SIM_VERSION;
}

int rknn_sim_fail(const char *function, uint32_t nth, int code) {
    lock();
    const int status = add_failure(function, nth, code);
    unlock();
    return status;
}

void rknn_sim_latency(uint32_t microseconds) {
    lock();
    control.latency_us = microseconds;
    unlock();
}

int rknn_sim_core_speed(uint32_t cores, uint32_t permille) {
    if (cores < 2 || cores > RKNN_SIM_MAX_CORES || permille == 0) {
        return RKNN_ERR_PARAM_INVALID;
    }
    lock();
    control.speed[cores] = permille;
    unlock();
    return RKNN_SUCC;
}

void rknn_sim_bus(uint64_t bytes_per_second, uint64_t bytes_per_run) {
    sim_bus_set(bytes_per_second, bytes_per_run);
}

void rknn_sim_live(uint32_t *contexts, uint32_t *memories, uint32_t *outputs) {
    uint32_t *const wanted[API_THINGS] = {contexts, memories, outputs};
    lock();
    for (int thing = 0; thing < API_THINGS; thing++) {
        if (wanted[thing] != NULL) {
            *wanted[thing] = control.alive[thing];
        }
    }
    unlock();
}

int64_t rknn_sim_calls(const char *function) {
    const int call = call_of(function);
    if (call < 0) {
        return -1;
    }
    lock();
    const int64_t calls = control.calls[call];
    unlock();
    return calls;
}

uint64_t rknn_sim_violations(char *text, size_t text_size) {
    collect_violations();
    lock();
    const uint64_t violations = control.violations;
    copy_text(text, text_size, control.violation);
    unlock();
    return violations;
}

void rknn_sim_message(char *text, size_t text_size) {
    lock();
    copy_text(text, text_size, control.message);
    unlock();
}

int rknn_sim_caches(int mode) {
    if (mode < RKNN_SIM_COHERENT || mode > RKNN_SIM_STRICT_UNLESS_SAID) {
        return RKNN_ERR_PARAM_INVALID;
    }
    lock();
    if (mode != RKNN_SIM_STRICT_UNLESS_SAID || !control.said_caches) {
        control.is_strict = mode != RKNN_SIM_COHERENT;
    }
    control.said_caches = control.said_caches || mode != RKNN_SIM_STRICT_UNLESS_SAID;
    unlock();
    return RKNN_SUCC;
}

bool sim_soc(char name[SIM_SOC_BYTES]) {
    lock();
    copy_text(name, SIM_SOC_BYTES, control.soc);
    unlock();
    return strncmp(name, "rk35", 4) == 0 || strcmp(name, "rv1126b") == 0;
}

int rknn_sim_soc(const char *name, char *text, size_t text_size) {
    lock();
    copy_text(text, text_size, control.soc);
    const bool is_set = name == NULL || set_soc(name);
    unlock();
    return is_set ? RKNN_SUCC : RKNN_ERR_PARAM_INVALID;
}

void rknn_sim_reset(void) {
    collect_violations(); /* those before it are forgotten, too */
    lock();
    control.n_failures = 0;
    control.latency_us = 0;
    memset(control.speed, 0, sizeof control.speed);
    memset(control.calls, 0, sizeof control.calls);
    control.violations = 0;
    control.violation[0] = '\0';
    control.message[0] = '\0';
    unlock();
    sim_bus_set(0, 0);
}
