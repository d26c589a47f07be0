/* SPDX-License-Identifier: MIT
 *
 * Statuses of our own C functions. The vendor's are small negative numbers, so
 * ours start at -1000 and one integer can carry either. */

#define RKR_OK 0
#define RKR_ERR_UNAVAILABLE -1000 /* the loaded library lacks this function */
#define RKR_ERR_ARGUMENT -1001    /* a null pointer or a number outside its range */
#define RKR_ERR_SHAPE -1002       /* dimensions that contradict each other */
#define RKR_ERR_OVERFLOW -1003    /* a product of dimensions is too large */
#define RKR_ERR_NULL -1004        /* the vendor's function returned NULL */
#define RKR_ERR_LOAD -1005        /* dlopen or a required symbol failed */
#define RKR_ERR_MEMORY -1006      /* malloc failed */
#define RKR_ERR_OVERLAP -1007     /* source and destination share memory */
#define RKR_ERR_NAN -1008         /* a NaN where the result has none */
