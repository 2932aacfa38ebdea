#pragma once
#include <cstdint>

namespace lockstep::nn {

/// How a model ends: in log-probabilities of classes, or in its last layer's outputs as they are
/// (logits, or the values of a regression); gaussian: in twice as many, a mean and what tells a
/// variance of each value (ModelSignature::Output::gaussian).
enum class Head : std::uint8_t { log_probabilities, linear, gaussian };

}  // namespace lockstep::nn
