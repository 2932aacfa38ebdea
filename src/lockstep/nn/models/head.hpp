#pragma once
#include <cstdint>

namespace lockstep::nn {

/// How a model ends: in log-probabilities of classes, or in its last layer's outputs as they are
/// (logits, or the values of a regression).
enum class Head : std::uint8_t { log_probabilities, linear };

}  // namespace lockstep::nn
