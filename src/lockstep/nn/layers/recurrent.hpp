#pragma once
#include <cstdint>
#include <vector>

#include <lockstep/autograd/functional/recurrent.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/nn/random.hpp>

namespace lockstep::nn {

/// Options of RNN, LSTM and GRU; the defaults are those of PyTorch.
struct RecurrentOptions {
  std::int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;    ///< x and the output are [N, T, ...] instead of [T, N, ...]
  double dropout = 0.0;        ///< of each layer's output but the last's, in training
  bool bidirectional = false;  ///< D = 2 directions, their outputs side by side
};

/// The results of a recurrent layer; c_n is for the LSTM.
struct RecurrentResult {
  Variable output;    ///< of the last layer, [T, N, D H], or [N, T, D H] if batch_first
  Variable h_n, c_n;  ///< the states after the last step, [num_layers D, N, H], layer by layer
};

/// The common part of RNN, LSTM and GRU: as in torch.nn, with its parameters weight_ih_l0[G H, I],
/// weight_hh_l0[G H, H], bias_ih_l0, bias_hh_l0[G H], then weight_ih_l0_reverse ..., weight_ih_l1[G
/// H, D H] ..., all uniform in 1 / sqrt(H). G is 1, 4 (input, forget, cell, output) or 3 (reset,
/// update, new). Throws InputError for sizes below 1 and a dropout outside [0, 1).
class RecurrentLayer : public Module {
 public:
  /// The output alone, from a state of zeros.
  Variable forward(const Variable& x) override;
  [[nodiscard]] std::int64_t hidden_size() const noexcept { return hidden_size_; }
  /// The source of the masks of dropout, for ranks that agree on them.
  [[nodiscard]] RandomStream& random() noexcept { return random_; }

 protected:
  RecurrentLayer(const char* name, RnnMode mode, std::int64_t input_size, std::int64_t hidden_size,
                 const RecurrentOptions& options);
  /// h0 and c0 [num_layers D, N, H], or undefined for zeros; lengths as recurrent_layer takes them.
  [[nodiscard]] RecurrentResult run(const Variable& x, const Variable& h0, const Variable& c0,
                                    const Tensor& lengths);

 private:
  [[nodiscard]] Variable dropped(const Variable& x);

  const char* name_;
  RnnMode mode_;
  std::int64_t hidden_size_;
  RecurrentOptions options_;
  std::vector<RecurrentWeights> weights_;  ///< layer by layer, each its directions
  RandomStream random_;
};

enum class Nonlinearity : std::uint8_t { tanh, relu };

// `lengths` in the layers below, i64 [N], as recurrent_layer takes them, each in [1, T]: the number
// of elements of each sample's sequence, as in pack_padded_sequence and pad_packed_sequence (which,
// unlike Lockstep, cuts the output to the longest). Elements of x after a sequence's end have no
// effect, and the output is 0 there; h_n and c_n are the states after each sequence's last step.
// Undefined: all have T.

/// Elman's network.
class RNN : public RecurrentLayer {
 public:
  RNN(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options = {},
      Nonlinearity nonlinearity = Nonlinearity::tanh);
  using RecurrentLayer::forward;
  RecurrentResult forward(const Variable& x, const Variable& h0, const Tensor& lengths = {}) {
    return run(x, h0, {}, lengths);
  }
};

/// torch.nn.GRU.
class GRU : public RecurrentLayer {
 public:
  GRU(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options = {});
  using RecurrentLayer::forward;
  RecurrentResult forward(const Variable& x, const Variable& h0, const Tensor& lengths = {}) {
    return run(x, h0, {}, lengths);
  }
};

/// torch.nn.LSTM.
class LSTM : public RecurrentLayer {
 public:
  LSTM(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options = {});
  using RecurrentLayer::forward;
  RecurrentResult forward(const Variable& x, const Variable& h0, const Variable& c0,
                          const Tensor& lengths = {}) {
    return run(x, h0, c0, lengths);
  }
};

/// One step of one layer: parameters weight_ih[G H, I], weight_hh[G H, H], bias_ih, bias_hh[G H].
class RecurrentCell : public Module {
 public:
  /// The next h[N, H] for x[N, I], from a state of zeros.
  Variable forward(const Variable& x) override;

 protected:
  RecurrentCell(const char* name, RnnMode mode, std::int64_t input_size, std::int64_t hidden_size,
                bool bias);
  /// h and c [N, H], or undefined for zeros.
  [[nodiscard]] RecurrentOutput run(const Variable& x, const Variable& h, const Variable& c) const;

 private:
  const char* name_;
  RnnMode mode_;
  RecurrentWeights weights_;
};

/// torch.nn.RNNCell: one step of an RNN layer.
class RNNCell : public RecurrentCell {
 public:
  RNNCell(std::int64_t input_size, std::int64_t hidden_size, bool bias = true,
          Nonlinearity nonlinearity = Nonlinearity::tanh);
  using RecurrentCell::forward;
  Variable forward(const Variable& x, const Variable& h) { return run(x, h, {}).h_n; }
};

/// torch.nn.GRUCell: one step of a GRU layer.
class GRUCell : public RecurrentCell {
 public:
  GRUCell(std::int64_t input_size, std::int64_t hidden_size, bool bias = true);
  using RecurrentCell::forward;
  Variable forward(const Variable& x, const Variable& h) { return run(x, h, {}).h_n; }
};

/// The state of an LSTMCell, each [N, H].
struct LSTMState {
  Variable h, c;
};

/// torch.nn.LSTMCell: one step of an LSTM layer.
class LSTMCell : public RecurrentCell {
 public:
  LSTMCell(std::int64_t input_size, std::int64_t hidden_size, bool bias = true);
  using RecurrentCell::forward;
  LSTMState forward(const Variable& x, const LSTMState& state);
};

}  // namespace lockstep::nn
