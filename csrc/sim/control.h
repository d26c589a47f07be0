/* SPDX-License-Identifier: MIT
 *
 * State of the simulated runtime: failures on demand, latency, counters, log; and what steers it.
 */
#pragma once

#include "api/library.h"

#define SIM_VERSION "1"

API_EXPORT rknn_sim_version_fn rknn_sim_version;
API_EXPORT rknn_sim_set_executor_fn rknn_sim_set_executor;
API_EXPORT rknn_sim_emulator_fn rknn_sim_emulator;
API_EXPORT rknn_sim_fail_fn rknn_sim_fail;
API_EXPORT rknn_sim_latency_fn rknn_sim_latency;
API_EXPORT rknn_sim_core_speed_fn rknn_sim_core_speed;
API_EXPORT rknn_sim_bus_fn rknn_sim_bus;
API_EXPORT rknn_sim_live_fn rknn_sim_live;
API_EXPORT rknn_sim_calls_fn rknn_sim_calls;
API_EXPORT rknn_sim_violations_fn rknn_sim_violations;
API_EXPORT rknn_sim_message_fn rknn_sim_message;
API_EXPORT rknn_sim_caches_fn rknn_sim_caches;
API_EXPORT rknn_sim_soc_fn rknn_sim_soc;
API_EXPORT rknn_sim_reset_fn rknn_sim_reset;

/* Call a function at every call and before violations are counted: it notes violations that the
 * client committed between calls. */
void sim_collect_from(void (*collect)(void));
/* The shortest time of a run on this number of cores. */
int64_t sim_latency_us(uint32_t cores);
bool sim_caches_are_strict(void);
#define SIM_SOC_BYTES 16
/* Name of the SoC that multiplies matrices; false: its runtime is librknnmrt. */
bool sim_soc(char name[SIM_SOC_BYTES]);
