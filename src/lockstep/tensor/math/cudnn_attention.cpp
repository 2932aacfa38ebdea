// Uses cuDNN's graphs, which alone have attention, through cuDNN's frontend. Why it refuses one is
// told by CUDNN_FRONTEND_LOG_INFO=1 CUDNN_FRONTEND_LOG_FILE=stderr.
#include <lockstep/tensor/math/cudnn_attention.hpp>

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include <lockstep/tensor/math/cudnn_attention_graph.hpp>
#include <lockstep/tensor/math/cudnn_handle.hpp>
#include <lockstep/tensor/runtime/cuda_device_scope.hpp>

namespace lockstep::math {
namespace {

using cudnn_frontend::error_t;
using cudnn_frontend::graph::Graph;
using lockstep::detail::CudaDeviceScope;

class CudnnAttention final : public FusedAttentionPlan {
 public:
  /// Of a graph that cuDNN has planned.
  CudnnAttention(const Attention& attention, Device device, std::unique_ptr<Graph> graph,
                 std::size_t workspace_bytes)
      : attention_(attention), device_(device), graph_(std::move(graph)), bytes_(workspace_bytes) {}

  [[nodiscard]] std::size_t workspace_bytes() const noexcept override { return bytes_; }

  void run(const char* name, const AttentionAddresses& at, void* workspace,
           const Stream& stream) override {
    const CudaDeviceScope here(device_.index);
    const CudnnCheck<Attention> check(name, attention_, device_, true);
    // The library reads these through pointers to what may be written.
    using namespace attention_graph;
    std::unordered_map<std::int64_t, void*> addresses{{q, const_cast<void*>(at.q)},
                                                      {k, const_cast<void*>(at.k)},
                                                      {v, const_cast<void*>(at.v)},
                                                      {out, at.out},
                                                      {log_sum, at.log_sum}};
    if (attention_.key_bias_row != 0) {
      addresses.insert({key_bias, const_cast<void*>(at.key_bias)});
    }
    if (attention_.pass == AttentionPass::backward) {
      addresses.insert({{grad_out, const_cast<void*>(at.grad_out)},
                        {grad_q, at.grad_q},
                        {grad_k, at.grad_k},
                        {grad_v, at.grad_v}});
    }
    const CudnnHandle handle(stream, check);
    std::string why;
    try {
      error_t status = graph_->execute(handle.get(), addresses, workspace);
      if (status.is_good()) return;
      why = status.get_message();
    } catch (const std::exception& error) {
      why = error.what();
    }
    check.fail("cuDNN's graph gave: " + why.substr(0, why.find('\n')));
  }

 private:
  Attention attention_;
  Device device_;
  std::unique_ptr<Graph> graph_;
  std::size_t bytes_;
};

/// False for what cuDNN would compute wrongly, or crash at, without refusing it.
bool is_sound(const Attention& a) {
  using attention_graph::alignment;
  // pytorch/pytorch issue 193893: decoding with few heads of keys is wrong on a B200.
  if (a.alignment < alignment || (a.group_heads > 1 && a.queries == 1)) return false;
  if (a.pass == AttentionPass::forward) return true;
  // The frontend keeps a sum in f32 for each row before what it hands on as cuDNN's workspace.
  const bool is_aligned = a.batch * a.heads * a.queries * std::int64_t{4} % alignment == 0;
  // NVIDIA/cudnn-frontend issues 1071 and 1072: one query may crash planning, or give NaN. Pull
  // request 628: on Hopper the second half of the last 128 keys is taken for keys of score 0, which
  // gives NaN where log-sums are below -88 (with a bias: pytorch/pytorch issue 196678); a causal
  // mask without a bias hides it.
  const bool hides_keys = a.causal && a.key_bias_row == 0;
  return is_aligned && a.queries > 1 && (hides_keys || a.keys % 128 != 64);
}

/// The bytes of workspace of the graph that cuDNN's heuristics choose an engine for; nothing if it
/// supports none.
std::optional<std::size_t> planned(Graph& graph, cudnnHandle_t handle) {
  std::int64_t bytes = 0;
  try {
    const bool is_supported =
        graph.validate().is_good() && graph.build_operation_graph(handle).is_good() &&
        graph.create_execution_plans({cudnn_frontend::HeurMode_t::A}).is_good() &&
        graph.check_support().is_good() && graph.build_plans().is_good() &&
        graph.get_workspace_size(bytes).is_good();
    if (!is_supported) return std::nullopt;
  } catch (const std::exception&) {  // cuDNN's frontend may report a refusal so, too
    return std::nullopt;
  }
  return static_cast<std::size_t>(bytes);
}

}  // namespace

std::unique_ptr<FusedAttentionPlan> cudnn_plan(const char* name, const Attention& attention,
                                               Device device) {
  if (!is_sound(attention)) return nullptr;
  const CudaDeviceScope here(device.index);
  const CudnnCheck<Attention> check(name, attention, device, false);
  const CudnnHandle handle(current_stream(device), check);
  auto graph = std::make_unique<Graph>();
  attention_graph::describe(attention, *graph);
  const auto bytes = planned(*graph, handle.get());
  if (!bytes) return nullptr;
  return std::make_unique<CudnnAttention>(attention, device, std::move(graph), *bytes);
}

}  // namespace lockstep::math
