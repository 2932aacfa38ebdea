#include <lockstep/nn/layers/transformer.hpp>

#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/expect.hpp>
#include <lockstep/nn/forward_hook.hpp>
#include <lockstep/nn/layers/attention.hpp>
#include <lockstep/nn/layers/dropout.hpp>
#include <lockstep/nn/layers/linear.hpp>
#include <lockstep/nn/layers/norm.hpp>
#include <lockstep/nn/partition.hpp>
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

Variable TransformerEncoder::forward(const Variable& x) {
  const Partition* const ranks = partition();
  if (!ranks) return (*norm_)((*layers_)(x));
  return ranks->leave((*norm_)((*layers_)(ranks->enter(x))));
}

TransformerDecoderLayer::TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead,
                                                 const TransformerDecoderOptions& options)
    : options_(options) {
  const auto attention = [&](const char* name) {
    return register_module(name, std::make_shared<MultiheadAttention>(d_model, nhead));
  };
  const auto norm = [&](const char* name) {
    return register_module(name, std::make_shared<LayerNorm>(d_model, options.layer_norm_eps));
  };
  const auto dropout = [&](const char* name) {
    return register_module(name, std::make_shared<Dropout>(options.dropout));
  };
  self_attn_ = attention("self_attn");
  multihead_attn_ = attention("multihead_attn");
  linear1_ = register_module("linear1", std::make_shared<Linear>(d_model, options.dim_feedforward));
  dropout_ = dropout("dropout");
  linear2_ = register_module("linear2", std::make_shared<Linear>(options.dim_feedforward, d_model));
  norm1_ = norm("norm1");
  norm2_ = norm("norm2");
  norm3_ = norm("norm3");
  dropout1_ = dropout("dropout1");
  dropout2_ = dropout("dropout2");
  dropout3_ = dropout("dropout3");
}

Variable TransformerDecoderLayer::feed_forward(const Variable& x) {
  const bool smooth = options_.activation == TransformerDecoderOptions::Activation::gelu;
  const Variable hidden = (*linear1_)(x);
  return (*dropout3_)((*linear2_)((*dropout_)(smooth ? gelu(hidden) : relu(hidden))));
}

Variable TransformerDecoderLayer::forward(const Variable& tgt, const Variable& memory,
                                          const DecoderMasks& masks) {
  const auto to_itself = [&](const Variable& x) {
    return (*dropout1_)(call(*self_attn_, x, [&] {
      return self_attn_->forward(x, x, x, masks.tgt_key_padding_mask, masks.tgt_is_causal);
    }));
  };
  const auto to_memory = [&](const Variable& x) {
    return (*dropout2_)(call(*multihead_attn_, x, [&] {
      return multihead_attn_->forward(x, memory, memory, masks.memory_key_padding_mask);
    }));
  };
  if (options_.norm_first) {
    const Variable a = tgt + to_itself((*norm1_)(tgt));
    const Variable b = a + to_memory((*norm2_)(a));
    return b + feed_forward((*norm3_)(b));
  }
  const Variable a = (*norm1_)(tgt + to_itself(tgt));
  const Variable b = (*norm2_)(a + to_memory(a));
  return (*norm3_)(b + feed_forward(b));
}

Variable TransformerDecoderLayer::forward(const Variable&) {
  throw Error("TransformerDecoderLayer needs the encoder's output: call forward(tgt, memory)");
}

TransformerDecoder::TransformerDecoder(std::int64_t num_layers, std::int64_t d_model,
                                       std::int64_t nhead, const TransformerDecoderOptions& options,
                                       bool norm) {
  expect_positive("TransformerDecoder", "num_layers", num_layers);
  const auto list = std::make_shared<Sequential>();
  for (std::int64_t i = 0; i < num_layers; ++i) {
    layers_.push_back(std::make_shared<TransformerDecoderLayer>(d_model, nhead, options));
    list->push_back(layers_.back());
  }
  register_module("layers", list);
  if (norm) {
    norm_ = register_module("norm", std::make_shared<LayerNorm>(d_model, options.layer_norm_eps));
  }
}

Variable TransformerDecoder::forward(const Variable& tgt, const Variable& memory,
                                     const DecoderMasks& masks) {
  Variable x = tgt;
  for (const auto& layer : layers_)
    x = call(*layer, x, [&] { return layer->forward(x, memory, masks); });
  return norm_ ? (*norm_)(x) : x;
}

Variable TransformerDecoder::forward(const Variable&) {
  throw Error("TransformerDecoder needs the encoder's output: call forward(tgt, memory)");
}

}  // namespace lockstep::nn
