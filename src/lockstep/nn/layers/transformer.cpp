#include <lockstep/nn/layers/transformer.hpp>

#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/nn/expect.hpp>
#include <lockstep/nn/layers/attention.hpp>
#include <lockstep/nn/layers/dropout.hpp>
#include <lockstep/nn/layers/linear.hpp>
#include <lockstep/nn/layers/norm.hpp>
#include <lockstep/nn/sequential.hpp>

namespace lockstep::nn {

TransformerEncoderLayer::TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead,
                                                 std::int64_t dim_feedforward, double dropout)
    : self_attn_(
          register_module("self_attn", std::make_shared<MultiheadAttention>(d_model, nhead))),
      linear1_(register_module("linear1", std::make_shared<Linear>(d_model, dim_feedforward))),
      linear2_(register_module("linear2", std::make_shared<Linear>(dim_feedforward, d_model))),
      norm1_(register_module("norm1", std::make_shared<LayerNorm>(d_model))),
      norm2_(register_module("norm2", std::make_shared<LayerNorm>(d_model))),
      dropout_(register_module("dropout", std::make_shared<Dropout>(dropout))),
      dropout1_(register_module("dropout1", std::make_shared<Dropout>(dropout))),
      dropout2_(register_module("dropout2", std::make_shared<Dropout>(dropout))) {}

Variable TransformerEncoderLayer::forward(const Variable& x) {
  const Variable attended = x + (*dropout1_)((*self_attn_)((*norm1_)(x)));
  const Variable hidden = (*dropout_)(gelu((*linear1_)((*norm2_)(attended))));
  return attended + (*dropout2_)((*linear2_)(hidden));
}

TransformerEncoder::TransformerEncoder(std::int64_t num_layers, std::int64_t d_model,
                                       std::int64_t nhead, std::int64_t dim_feedforward,
                                       double dropout) {
  expect_positive("TransformerEncoder", "num_layers", num_layers);
  const auto layers = std::make_shared<Sequential>();
  for (std::int64_t i = 0; i < num_layers; ++i) {
    layers->push_back(
        std::make_shared<TransformerEncoderLayer>(d_model, nhead, dim_feedforward, dropout));
  }
  layers_ = register_module("layers", layers);
  norm_ = register_module("norm", std::make_shared<LayerNorm>(d_model));
}

Variable TransformerEncoder::forward(const Variable& x) { return (*norm_)((*layers_)(x)); }

}  // namespace lockstep::nn
