/* SPDX-License-Identifier: MIT
 *
 * QEMU plugin: writes to the standard error how many guest instructions a program has run
 * so far, each time it makes the system call number MARK. The plugin interface is declared
 * here, since distributions do not ship its header; QEMU_PLUGIN_API is the version that
 * the emulator wants. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id,
                                           void (*on_block)(plugin_id, struct qemu_plugin_tb *));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *block,
                                          void (*on_run)(unsigned cpu, void *), int flags,
                                          void *data);
void qemu_plugin_register_vcpu_syscall_cb(plugin_id id,
                                          void (*on_call)(plugin_id, unsigned cpu, int64_t number,
                                                          uint64_t, uint64_t, uint64_t, uint64_t,
                                                          uint64_t, uint64_t, uint64_t, uint64_t));

__attribute__((visibility("default"))) int qemu_plugin_version = QEMU_PLUGIN_API;
__attribute__((visibility("default"))) int qemu_plugin_install(plugin_id id, const void *info,
                                                               int argc, char **argv);

static _Atomic uint64_t instructions;

static void on_run(unsigned cpu, void *data) {
    (void)cpu;
    atomic_fetch_add_explicit(&instructions, (uintptr_t)data, memory_order_relaxed);
}

static void on_block(plugin_id id, struct qemu_plugin_tb *block) {
    (void)id;
    const uintptr_t size = qemu_plugin_tb_n_insns(block);
    qemu_plugin_register_vcpu_tb_exec_cb(block, on_run, 0, (void *)size);
}

static void on_call(plugin_id id, unsigned cpu, int64_t number, uint64_t a1, uint64_t a2,
                    uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8) {
    (void)id, (void)cpu;
    (void)a1, (void)a2, (void)a3, (void)a4, (void)a5, (void)a6, (void)a7, (void)a8;
    if (number == MARK) {
        fprintf(stderr, "guest instructions: %" PRIu64 "\n", atomic_load(&instructions));
    }
}

int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv) {
    (void)info;
    (void)argc;
    (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_block);
    qemu_plugin_register_vcpu_syscall_cb(id, on_call);
    return 0;
}
