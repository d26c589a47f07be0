/* SPDX-License-Identifier: MIT
 *
 * Memory of the client that the NPU reads where it is. */
#pragma once

#include "device.h"

#include "api/memories.h"

/* Where the NPU finds a memory that was made around a dma-buf or is one; 0: it cannot. */
uint32_t open_loan_address(open_device *device, api_mem *mem);
/* It is given back. */
void open_loan_end(api_mem *mem);
