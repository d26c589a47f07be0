#include "rkr.h"
