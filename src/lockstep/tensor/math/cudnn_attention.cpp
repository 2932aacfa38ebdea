// Uses cuDNN's graphs, which alone have attention, through cuDNN's frontend (headers only): it
// writes attention as the graph that a version of cuDNN supports on a GPU. Why it refuses one is
// told by CUDNN_FRONTEND_LOG_INFO=1 CUDNN_FRONTEND_LOG_FILE=stderr.
#include <lockstep/tensor/math/cudnn_attention.hpp>

#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include <lockstep/tensor/math/cudnn_handle.hpp>
#include <lockstep/tensor/runtime/cuda_device_scope.hpp>

namespace lockstep::math {
namespace {

using cudnn_frontend::error_t;
using cudnn_frontend::graph::Graph;
using cudnn_frontend::graph::SDPA_attributes;
using cudnn_frontend::graph::SDPA_backward_attributes;
using cudnn_frontend::graph::Tensor_attributes;
using lockstep::detail::CudaDeviceScope;

using GraphTensor = std::shared_ptr<Tensor_attributes>;

/// Bytes: cuDNN loads that many at once, of rows and of its workspace.
constexpr int alignment = 16;

/// The graph's numbers of its tensors.
enum Number : std::int64_t { q = 1, k, v, out, log_sum, grad_out, grad_q, grad_k, grad_v };

/// Describes an attention to a graph.
class Description {
 public:
  Description(const Attention& attention, Graph& graph) : a_(attention), graph_(graph) {
    graph_
        .set_io_data_type(a_.dtype == DType::bf16 ? cudnn_frontend::DataType_t::BFLOAT16
                                                  : cudnn_frontend::DataType_t::HALF)
        .set_intermediate_data_type(cudnn_frontend::DataType_t::FLOAT)
        .set_compute_data_type(cudnn_frontend::DataType_t::FLOAT);
    if (a_.pass == AttentionPass::forward) {
      describe_forward();
    } else {
      describe_backward();
    }
  }

 private:
  /// The operand's number, extents and strides.
  Tensor_attributes& describe(Tensor_attributes& tensor, Number number, std::int64_t rows,
                              const Attention::Strides& strides) const {
    return tensor.set_uid(number)
        .set_dim({a_.batch, a_.heads, rows, a_.width})
        .set_stride({strides.batch, strides.head, strides.row, 1})
        .set_alignment(alignment);
  }
  Tensor_attributes& describe_log_sum(Tensor_attributes& tensor) const {
    return tensor.set_uid(log_sum)
        .set_dim({a_.batch, a_.heads, a_.queries, 1})
        .set_stride({a_.heads * a_.queries, a_.queries, 1, 1})
        .set_data_type(cudnn_frontend::DataType_t::FLOAT);
  }
  GraphTensor input(const char* name, Number number, std::int64_t rows,
                    const Attention::Strides& strides) {
    Tensor_attributes tensor;
    return graph_.tensor(describe(tensor.set_name(name), number, rows, strides));
  }

  void describe_forward() {
    SDPA_attributes options;
    options.set_name("attention")
        .set_generate_stats(true)
        .set_causal_mask(a_.causal)
        .set_attn_scale(static_cast<float>(a_.scale));
    const auto [y, sums] =
        graph_.sdpa(input("q", q, a_.queries, a_.q), input("k", k, a_.keys, a_.k),
                    input("v", v, a_.keys, a_.v), options);
    describe(y->set_output(true), out, a_.queries, a_.out);
    describe_log_sum(sums->set_output(true));
  }

  void describe_backward() {
    SDPA_backward_attributes options;
    options.set_name("attention_backward")
        .set_causal_mask(a_.causal)
        .set_attn_scale(static_cast<float>(a_.scale))
        .set_deterministic_algorithm(true);
    Tensor_attributes sums;
    const auto [to_q, to_k, to_v] = graph_.sdpa_backward(
        input("q", q, a_.queries, a_.q), input("k", k, a_.keys, a_.k), input("v", v, a_.keys, a_.v),
        input("out", out, a_.queries, a_.out), input("grad_out", grad_out, a_.queries, a_.grad_out),
        graph_.tensor(describe_log_sum(sums.set_name("log_sum"))), options);
    describe(to_q->set_output(true), grad_q, a_.queries, a_.grad_q);
    describe(to_k->set_output(true), grad_k, a_.keys, a_.grad_k);
    describe(to_v->set_output(true), grad_v, a_.keys, a_.grad_v);
  }

  const Attention& a_;
  Graph& graph_;
};

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
    std::unordered_map<std::int64_t, void*> addresses{{q, const_cast<void*>(at.q)},
                                                      {k, const_cast<void*>(at.k)},
                                                      {v, const_cast<void*>(at.v)},
                                                      {out, at.out},
                                                      {log_sum, at.log_sum}};
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
  if (a.alignment < alignment) return false;
  if (a.pass == AttentionPass::forward) return true;
  // The frontend keeps a sum in f32 for each row before what it hands on as cuDNN's workspace.
  const bool is_aligned = a.batch * a.heads * a.queries * std::int64_t{4} % alignment == 0;
  // NVIDIA/cudnn-frontend issues 1071 and 1072: one query may crash planning, or give NaN. Pull
  // request 628: on Hopper the second half of the last 128 keys is taken for keys of score 0, which
  // gives NaN where log-sums are below -88; a causal mask hides it.
  return is_aligned && a.queries > 1 && (a.causal || a.keys % 128 != 64);
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
  Description(attention, *graph);
  const auto bytes = planned(*graph, handle.get());
  if (!bytes) return nullptr;
  return std::make_unique<CudnnAttention>(attention, device, std::move(graph), *bytes);
}

}  // namespace lockstep::math
