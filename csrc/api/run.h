/* SPDX-License-Identifier: MIT
 *
 * One run. What a library defines of it: who computes, and on which cores. */
#pragma once

#include "ports.h"

/* The whole of a run but for the cores: a status. */
int api_run(api_context *context);
/* Have the machine of the model compute the values of the outputs from those of the inputs. */
int api_execute(api_context *context);

/* All of the library. Compute the outputs' values, by the machine or otherwise. */
int api_compute(api_context *context);
/* A run of which no input is bound: a status. */
int api_compute_nothing(api_context *context);
/* The cores that share a run, or the one that it has to use, as a mask; 0: any one. */
uint32_t api_choose_cores(const api_context *context);
/* Call api_run when the cores of the context are free, for at most `timeout_ms` (0: as long as it
 * takes); note `run_us` and `has_run`. */
int api_run_on_cores(api_context *context, int32_t timeout_ms);
