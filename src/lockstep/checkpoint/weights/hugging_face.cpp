#include <lockstep/checkpoint/weights/hugging_face.hpp>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

constexpr std::string_view prefix = "transformer.", head = "lm_head.weight", table = "wte.weight";

std::string_view without_prefix(std::string_view name) {
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

bool is_conv1d(std::string_view name) {
  return name.starts_with("h.") &&
         (name.ends_with(".attn.c_attn.weight") || name.ends_with(".attn.c_proj.weight") ||
          name.ends_with(".mlp.c_fc.weight") || name.ends_with(".mlp.c_proj.weight"));
}

bool is_mask(std::string_view name) {
  return name.starts_with("h.") &&
         (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
}

/// Transposes x[n, m] to [m, n] on the host, for any dtype.
Tensor transposed(const Tensor& given) {
  const Tensor x = given.to(Device{});
  const std::int64_t rows = x.size(0), columns = x.size(1);
  Tensor y = Tensor::empty({columns, rows}, x.dtype());
  const auto size = static_cast<std::int64_t>(size_of(x.dtype()));
  const auto* from = static_cast<const std::byte*>(x.data());
  auto* to = static_cast<std::byte*>(y.data());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      std::memcpy(to + (c * rows + r) * size, from + (r * columns + c) * size,
                  static_cast<std::size_t>(size));
    }
  }
  return y;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.to(Device{}).data(), b.to(Device{}).data(), a.bytes()) == 0;
}

}  // namespace

bool is_hugging_face_gpt2(const StateDict& weights) {
  return std::ranges::any_of(weights, [](const auto& entry) {
    const std::string_view name = without_prefix(entry.name);
    return is_conv1d(name) && name.ends_with(".c_attn.weight") && entry.tensor.dims() == 2 &&
           3 * entry.tensor.size(0) == entry.tensor.size(1);
  });
}

StateDict from_hugging_face_gpt2(const StateDict& weights) {
  StateDict result;
  const Tensor* tied = nullptr;
  for (const auto& entry : weights) {
    const std::string_view name = without_prefix(entry.name);
    if (name == head) {
      tied = &entry.tensor;
    } else if (!is_mask(name)) {
      const bool turned = is_conv1d(name) && entry.tensor.dims() == 2;
      result.insert(std::string(name),
                    turned ? transposed(entry.tensor) : entry.tensor.to(Device{}));
    }
  }
  const auto* embedding = result.find(std::string(table));
  if (tied && embedding && !same_bytes(*tied, embedding->tensor)) {
    throw CheckpointError(
        "these GPT-2 weights have an lm_head.weight different from wte.weight, but the head of "
        "Lockstep's gpt is tied");
  }
  return result;
}

StateDict to_hugging_face_gpt2(const StateDict& weights) {
  if (!weights.find(std::string(table)) || !weights.find("h.0.attn.c_attn.weight")) {
    throw InputError(
        "these are not the weights of a gpt: only those can be written in Hugging Face's form");
  }
  StateDict result;
  for (const auto& [name, tensor, placement] : weights)
    result.insert(std::string(prefix) + name,
                  is_conv1d(name) ? transposed(tensor) : tensor.to(Device{}));
  return result;
}

}  // namespace lockstep
