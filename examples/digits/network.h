// A three-layer network as loop programs: one that gives the class scores and one that gives the loss.
#pragma once

#include <loopgrad/loopgrad.h>

#include <array>
#include <cstdint>
#include <vector>

namespace digits {

namespace lg = loopgrad;

/// Extents of the layers: pixels, two hidden layers, classes.
inline constexpr std::array<std::int64_t, 4> kLayers = {64, 96, 64, 10};

/// Weights and biases of the three layers as the programs name them: w1 b1 w2 b2 w3 b3.
inline const std::vector<std::string> kParameters = {"w1", "b1", "w2", "b2", "w3", "b3"};

/// x[samples, 64] and the parameters -> score[samples, 10].
lg::Program scores();
/// x, label[samples] and the parameters -> the mean cross-entropy `loss`.
lg::Program loss();

}  // namespace digits
