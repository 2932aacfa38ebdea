#pragma once
// One step of a recurrent layer for one unit of one sample: for the loops of the host and the
// threads of a device. rnn.hpp has the formulas. Private to rnn.cpp and rnn_device.cpp.
#include <cstdint>

#include <lockstep/tensor/kernels/elementwise/math_functions.hpp>
#include <lockstep/tensor/kernels/sequence/rnn.hpp>

namespace lockstep::detail {

/// Inputs and outputs of one step of one sample: rows of H, `gates` of G H.
template <class Element>
struct ForwardRow {
  using T = Element;
  std::int64_t hidden;
  T* gates;               ///< in: sums of the products, out: gates
  const T* hidden_gates;  ///< GRU: W_hh h
  const T *bias, *bias_hn;
  const T *h_before, *c_before;
  T *h, *c, *hidden_part;
};

template <class Element>
struct BackwardRow {
  using T = Element;
  std::int64_t hidden;
  const T *gates, *hidden_part, *h_before, *h, *c_before, *c;
  const T* grad_out;
  /// in: from the later steps, out: the part that does not pass the products
  T *grad_h, *grad_c;
  T *grad_gates, *grad_hidden_gates;
};

// A cell's step(row, j) is that of unit j, which reads and writes no element of another unit.

struct TanhFunction {
  template <class T>
  LOCKSTEP_FUNCTION static T value(T x) {
    return math::tanh(x);
  }
  template <class T>
  LOCKSTEP_FUNCTION static T derivative(T y) {
    return T{1} - y * y;
  }
};

struct ReluFunction {
  template <class T>
  LOCKSTEP_FUNCTION static T value(T x) {
    return x <= T{0} ? T{0} : x;
  }
  template <class T>
  LOCKSTEP_FUNCTION static T derivative(T y) {
    return y > T{0} ? T{1} : T{0};
  }
};

template <class Function>
struct RnnCell {
  template <class T>
  LOCKSTEP_FUNCTION static void step(const ForwardRow<T>& r, std::int64_t j) {
    r.h[j] = Function::value(r.gates[j] + r.bias[j]);
  }
  template <class T>
  LOCKSTEP_FUNCTION static void step(const BackwardRow<T>& r, std::int64_t j) {
    r.grad_gates[j] = (r.grad_h[j] + r.grad_out[j]) * Function::derivative(r.h[j]);
  }
};

struct LstmCell {
  template <class T>
  LOCKSTEP_FUNCTION static void step(const ForwardRow<T>& r, std::int64_t j) {
    const std::int64_t width = r.hidden;
    T *const in = r.gates, *const forget = in + width, *const cell = forget + width,
             *const out = cell + width;
    const T* const b = r.bias;
    const T i = math::sigmoid(in[j] + b[j]), f = math::sigmoid(forget[j] + b[width + j]);
    const T g = math::tanh(cell[j] + b[2 * width + j]);
    const T o = math::sigmoid(out[j] + b[3 * width + j]);
    const T c = f * r.c_before[j] + i * g;
    in[j] = i;
    forget[j] = f;
    cell[j] = g;
    out[j] = o;
    r.c[j] = c;
    r.h[j] = o * math::tanh(c);
  }
  template <class T>
  LOCKSTEP_FUNCTION static void step(const BackwardRow<T>& r, std::int64_t j) {
    const std::int64_t width = r.hidden;
    const T* const gates = r.gates;
    T* const grad = r.grad_gates;
    const T i = gates[j], f = gates[width + j], g = gates[2 * width + j], o = gates[3 * width + j];
    const T squashed = math::tanh(r.c[j]), dh = r.grad_h[j] + r.grad_out[j];
    const T dc = r.grad_c[j] + dh * o * (T{1} - squashed * squashed);
    grad[j] = dc * g * i * (T{1} - i);
    grad[width + j] = dc * r.c_before[j] * f * (T{1} - f);
    grad[2 * width + j] = dc * i * (T{1} - g * g);
    grad[3 * width + j] = dh * squashed * o * (T{1} - o);
    r.grad_c[j] = dc * f;
  }
};

struct GruCell {
  template <class T>
  LOCKSTEP_FUNCTION static void step(const ForwardRow<T>& r, std::int64_t j) {
    const std::int64_t width = r.hidden;
    T *const reset = r.gates, *const update = reset + width, *const fresh = update + width;
    const T *const b = r.bias, *const product = r.hidden_gates;
    const T resets = math::sigmoid(reset[j] + product[j] + b[j]);
    const T z = math::sigmoid(update[j] + product[width + j] + b[width + j]);
    const T part = product[2 * width + j] + r.bias_hn[j];
    const T n = math::tanh(fresh[j] + b[2 * width + j] + resets * part);
    reset[j] = resets;
    update[j] = z;
    fresh[j] = n;
    r.hidden_part[j] = part;
    r.h[j] = n + z * (r.h_before[j] - n);
  }
  template <class T>
  LOCKSTEP_FUNCTION static void step(const BackwardRow<T>& r, std::int64_t j) {
    const std::int64_t width = r.hidden;
    const T* const gates = r.gates;
    T *const grad = r.grad_gates, *const grad_hidden = r.grad_hidden_gates;
    const T resets = gates[j], z = gates[width + j], n = gates[2 * width + j];
    const T dh = r.grad_h[j] + r.grad_out[j];
    const T da_n = dh * (T{1} - z) * (T{1} - n * n);
    const T da_r = da_n * r.hidden_part[j] * resets * (T{1} - resets);
    const T da_z = dh * (r.h_before[j] - n) * z * (T{1} - z);
    grad[j] = grad_hidden[j] = da_r;
    grad[width + j] = grad_hidden[width + j] = da_z;
    grad[2 * width + j] = da_n;
    grad_hidden[2 * width + j] = da_n * resets;
    r.grad_h[j] = dh * z;
  }
};

/// Calls f.template operator()<Cell>() with the mode's cell.
template <class F>
void dispatch_cell(RnnMode mode, const F& f) {
  switch (mode) {
    case RnnMode::rnn_tanh:
      return f.template operator()<RnnCell<TanhFunction>>();
    case RnnMode::rnn_relu:
      return f.template operator()<RnnCell<ReluFunction>>();
    case RnnMode::lstm:
      return f.template operator()<LstmCell>();
    case RnnMode::gru:
      return f.template operator()<GruCell>();
  }
}

}  // namespace lockstep::detail
