#include <lockstep/comm/arguments.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

bool same_but_leading(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.dims() != b.dims() || a.dims() < 1) return false;
  for (int d = 1; d < a.dims(); ++d) {
    if (a.size(d) != b.size(d)) return false;
  }
  return true;
}

std::int64_t total(std::span<const std::int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

}  // namespace

void refuse_undefined(const Call& call, const Argument& argument) {
  throw ShapeError(
      fmt::format("{}: {} is not a tensor (default-constructed)", call.name, argument.name));
}

Device common_device(const Operation& operation) {
  const Tensor &input = operation.input, &output = operation.output;
  if (!input.defined() || !output.defined()) return (input.defined() ? input : output).device();
  if (input.device() == output.device()) return input.device();
  throw ShapeError(
      fmt::format("{} from {} to {}: both must lie on one device; move one of them there with to()",
                  name_of(operation.kind), describe(input), describe(output)));
}

void expect_root(const Call& call, int root) {
  if (root >= 0 && root < call.size) return;
  throw ShapeError(fmt::format("{} with root {}: the group's ranks are 0 to {}", call.name, root,
                               call.size - 1));
}

void expect_peer(const Call& call, int peer, int tag) {
  if (tag < 0 || tag >= message_tags) {
    throw ShapeError(
        fmt::format("{} with tag {}: tags are 0 to {}", call.name, tag, message_tags - 1));
  }
  if (peer >= 0 && peer < call.size) return;
  throw ShapeError(fmt::format("{} names rank {} as its peer: the group's ranks are 0 to {}",
                               call.name, peer, call.size - 1));
}

void expect_reducible(const Call& call, ReduceOp op, const Tensor& t) {
  if (reducible(op, t.dtype())) return;
  throw ShapeError(fmt::format(
      "{}({}) takes {}, not {}", call.name, name_of(op),
      op == ReduceOp::avg ? "f64, f32, f16 or bf16" : "i64, i32, u8 or bool", describe(t)));
}

void expect_equal(const Call& call, const Tensor& input, const Tensor& output) {
  if (input.dtype() == output.dtype() && input.shape() == output.shape()) return;
  throw ShapeError(fmt::format("{} of {} into {}: the output must have the input's shape and dtype",
                               call.name, describe(input), describe(output)));
}

void expect_rows(const Call& call, const Tensor& one, const Tensor& all, int rank) {
  bool fits =
      one.dtype() == all.dtype() && all.dims() == one.dims() + 1 && all.size(0) == call.size;
  for (int d = 0; fits && d < one.dims(); ++d) fits = all.size(d + 1) == one.size(d);
  if (fits) return expect_in_place_or_apart(call, one, all, rank * one.numel());
  throw ShapeError(
      fmt::format("{} over {} ranks between {} and {}: the tensor that holds every rank's part "
                  "must have the other's dtype, and its shape behind a leading {}",
                  call.name, call.size, describe(one), describe(all), call.size));
}

void expect_apart(const Call& call, const Tensor& input, const Tensor& output) {
  if (!overlap(input, output)) return;
  throw ShapeError(
      fmt::format("{} of {} into {}: they overlap in memory; give it an output of its "
                  "own",
                  call.name, describe(input), describe(output)));
}

void expect_in_place_or_apart(const Call& call, const Tensor& part, const Tensor& whole,
                              std::int64_t begin) {
  if (part.data() == address_of(whole, begin) || !overlap(part, whole)) return;
  throw ShapeError(
      fmt::format("{} between {} and {}: they overlap in memory, but a call in place needs the "
                  "overlap to begin at element {}",
                  call.name, describe(part), describe(whole), begin));
}

void expect_counts(const Call& call, std::span<const std::int64_t> counts) {
  if (static_cast<int>(counts.size()) == call.size &&
      std::ranges::all_of(counts, [](auto c) { return c >= 0; })) {
    return;
  }
  throw ShapeError(
      fmt::format("{} with counts [{}]: it needs {} counts, one per rank, none negative", call.name,
                  fmt::join(counts, ", "), call.size));
}

void expect_total(const Call& call, const Argument& t, std::span<const std::int64_t> counts) {
  if (t.tensor.dims() >= 1 && t.tensor.size(0) == total(counts)) return;
  throw ShapeError(fmt::format("{}: {} is {}, but the counts [{}] make {} rows", call.name, t.name,
                               describe(t.tensor), fmt::join(counts, ", "), total(counts)));
}

void expect_row_a_rank(const Call& call, const Argument& t) {
  if (t.tensor.dims() >= 1 && t.tensor.size(0) == call.size) return;
  throw ShapeError(fmt::format("{}: {} is {}, but {} ranks need as many rows", call.name, t.name,
                               describe(t.tensor), call.size));
}

std::vector<std::int64_t> expect_share(const Call& call, const Argument& part,
                                       const Argument& whole,
                                       std::span<const std::int64_t> counts) {
  expect_defined(call, part);
  expect_counts(call, counts);
  const std::int64_t rows = counts[static_cast<std::size_t>(call.rank)];
  const Tensor& t = part.tensor;
  if (t.dims() < 1 || t.size(0) != rows) {
    throw ShapeError(fmt::format("{}: {} is {}, but rank {}'s count is {} rows", call.name,
                                 part.name, describe(t), call.rank, rows));
  }
  auto elements = element_counts(t, counts);
  if (whole.tensor.defined()) {
    expect_same_rows(call, t, whole.tensor);
    expect_total(call, whole, counts);
    expect_in_place_or_apart(call, t, whole.tensor,
                             block_of(elements, 0, call.size, call.rank).begin);
  }
  return elements;
}

void expect_same_rows(const Call& call, const Tensor& a, const Tensor& b) {
  if (same_but_leading(a, b)) return;
  throw ShapeError(
      fmt::format("{} between {} and {}: they may differ in their leading dimension only",
                  call.name, describe(a), describe(b)));
}

std::vector<std::int64_t> element_counts(const Tensor& t, std::span<const std::int64_t> counts) {
  std::int64_t row = 1;
  for (int d = 1; d < t.dims(); ++d) row *= t.size(d);
  std::vector<std::int64_t> elements(counts.begin(), counts.end());
  for (auto& count : elements) count *= row;
  return elements;
}

}  // namespace lockstep
