#pragma once
// Attention as a graph of cuDNN's frontend (headers only): it writes attention as the operations
// that a version of cuDNN supports on a GPU. Only in builds with these headers.
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include <cstdint>

#include <lockstep/tensor/math/device_math.hpp>

namespace lockstep::math::attention_graph {

/// Bytes: cuDNN loads that many at once, of rows and of its workspace.
constexpr int alignment = 16;

/// The graph's numbers of its tensors.
enum Number : std::int64_t {
  q = 1,
  k,
  v,
  key_bias,
  out,
  log_sum,
  grad_out,
  grad_q,
  grad_k,
  grad_v
};

/// Describes `attention` to an empty graph, which cuDNN may refuse to plan.
void describe(const Attention& attention, cudnn_frontend::graph::Graph& graph);

}  // namespace lockstep::math::attention_graph
