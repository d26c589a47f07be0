// Stands in for the vendor's scaler, whose library is for ARM. Frames of the model's size never
// reach it.
#include <cstdlib>

#include "im2d.h"

IM_C_API rga_buffer_t wrapbuffer_virtualaddr_t(void *, int, int, int, int, int) {
    abort();
}
IM_C_API const char *imStrError_t(IM_STATUS) {
    abort();
}
IM_C_API IM_STATUS imcheck_t(const rga_buffer_t, const rga_buffer_t, const rga_buffer_t,
                             const im_rect, const im_rect, const im_rect, const int) {
    abort();
}
IM_STATUS imresize(const rga_buffer_t, rga_buffer_t, double, double, int, int, int *) {
    abort();
}
