#include <lockstep/tensor/math/cudnn_attention_graph.hpp>

#include <memory>

namespace lockstep::math::attention_graph {
namespace {

using cudnn_frontend::graph::Graph;
using cudnn_frontend::graph::SDPA_attributes;
using cudnn_frontend::graph::SDPA_backward_attributes;
using cudnn_frontend::graph::Tensor_attributes;

using GraphTensor = std::shared_ptr<Tensor_attributes>;

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
  Tensor_attributes& describe(Tensor_attributes& tensor, Number number,
                              const Attention::Strides& strides) const {
    const bool is_of_keys = number == k || number == v || number == grad_k || number == grad_v;
    const std::int64_t heads = is_of_keys ? a_.heads / a_.group_heads : a_.heads;
    return tensor.set_uid(number)
        .set_dim({a_.batch, heads, is_of_keys ? a_.keys : a_.queries, a_.width})
        .set_stride({strides.batch, strides.head, strides.row, 1})
        .set_alignment(alignment);
  }
  Tensor_attributes& describe_log_sum(Tensor_attributes& tensor) const {
    return tensor.set_uid(log_sum)
        .set_dim({a_.batch, a_.heads, a_.queries, 1})
        .set_stride({a_.heads * a_.queries, a_.queries, 1, 1})
        .set_data_type(cudnn_frontend::DataType_t::FLOAT);
  }
  GraphTensor input(const char* name, Number number, const Attention::Strides& strides) {
    Tensor_attributes tensor;
    return graph_.tensor(describe(tensor.set_name(name), number, strides));
  }

  /// Adds the key bias, if there is one: the same for all heads and queries.
  template <class Options>
  void describe_key_bias(Options& options) {
    if (a_.key_bias_row == 0) return;
    const std::int64_t row = a_.key_bias_row;
    Tensor_attributes tensor;
    options.set_bias(graph_.tensor(tensor.set_name("key_bias")
                                       .set_uid(key_bias)
                                       .set_dim({a_.batch, 1, 1, a_.keys})
                                       .set_stride({row, row, row, 1})
                                       .set_alignment(alignment)
                                       .set_data_type(cudnn_frontend::DataType_t::FLOAT)));
  }

  void describe_forward() {
    SDPA_attributes options;
    options.set_name("attention")
        .set_generate_stats(true)
        .set_causal_mask(a_.causal)
        .set_attn_scale(static_cast<float>(a_.scale));
    describe_key_bias(options);
    const auto [y, sums] =
        graph_.sdpa(input("q", q, a_.q), input("k", k, a_.k), input("v", v, a_.v), options);
    describe(y->set_output(true), out, a_.out);
    describe_log_sum(sums->set_output(true));
  }

  void describe_backward() {
    SDPA_backward_attributes options;
    options.set_name("attention_backward")
        .set_causal_mask(a_.causal)
        .set_attn_scale(static_cast<float>(a_.scale))
        .set_deterministic_algorithm(true);
    describe_key_bias(options);
    Tensor_attributes sums;
    const auto [to_q, to_k, to_v] =
        graph_.sdpa_backward(input("q", q, a_.q), input("k", k, a_.k), input("v", v, a_.v),
                             input("out", out, a_.out), input("grad_out", grad_out, a_.grad_out),
                             graph_.tensor(describe_log_sum(sums.set_name("log_sum"))), options);
    describe(to_q->set_output(true), grad_q, a_.grad_q);
    describe(to_k->set_output(true), grad_k, a_.grad_k);
    describe(to_v->set_output(true), grad_v, a_.grad_v);
  }

  const Attention& a_;
  Graph& graph_;
};

}  // namespace

void describe(const Attention& attention, Graph& graph) { Description(attention, graph); }

}  // namespace lockstep::math::attention_graph
