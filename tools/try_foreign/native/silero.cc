// Feeds windows of sound to sherpa-onnx's Silero VAD; prints a probability for each.
#include <cstdio>
#include <vector>

#include "sherpa-onnx/csrc/rknn/silero-vad-model-rknn.h"

int main(int, char **argv) {
    sherpa_onnx::VadModelConfig config;
    config.silero_vad.model = argv[1];
    config.sample_rate = 16000;
    sherpa_onnx::SileroVadModelRknn model(config);
    std::vector<float> window(static_cast<size_t>(model.WindowSize()));
    FILE *in = fopen(argv[2], "rb");
    while (fread(window.data(), sizeof(float), window.size(), in) == window.size())
        printf("%.9g\n", model.Compute(window.data(), model.WindowSize()));
    fclose(in);
    return 0;
}
