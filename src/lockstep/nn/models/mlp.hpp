#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include <lockstep/nn/models/head.hpp>
#include <lockstep/nn/sequential.hpp>

namespace lockstep::nn {

/// Flatten, then Linear and ReLU for each hidden size, Linear to `outputs`, and the head's
/// log-softmax. Parameters fc1, fc2, ...
[[nodiscard]] std::shared_ptr<Sequential> mlp(const Shape& sample, std::int64_t outputs,
                                              const std::vector<std::int64_t>& hidden,
                                              Head head = Head::log_probabilities);

}  // namespace lockstep::nn
