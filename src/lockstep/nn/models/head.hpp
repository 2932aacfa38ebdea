#pragma once
#include <cstdint>

namespace lockstep::nn {

/// The last stage of a model: log-probabilities of classes, or its last layer's outputs (logits, or
/// the values of a regression); gaussian: twice as many outputs, a mean and a parameter of the
/// variance for each value (ModelSignature::Output::gaussian).
enum class Head : std::uint8_t { log_probabilities, linear, gaussian };

}  // namespace lockstep::nn
