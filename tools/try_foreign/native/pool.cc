// Runs frames through leafqycc's pool of three threads; writes what it drew.
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "rkYolov5s.hpp"
#include "rknnPool.hpp"

int main(int argc, char **argv) {
    const int side = argc > 4 ? atoi(argv[4]) : 0;
    FILE *in = fopen(argv[2], "rb"), *out = fopen(argv[3], "wb");
    rknnPool<rkYolov5s, cv::Mat, cv::Mat> pool(argv[1], 3);
    if (pool.init() != 0)
        return 1;
    cv::Mat frame(side, side, CV_8UC3), drawn;
    const size_t size = frame.total() * frame.elemSize();
    while (fread(frame.data, 1, size, in) == size)
        pool.put(frame.clone());
    while (pool.get(drawn) == 0)
        fwrite(drawn.data, 1, size, out);
    fclose(out);
    fclose(in);
    return 0;
}
