#include <lockstep/data/subset.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include <lockstep/base/error.hpp>
#include <lockstep/base/expect_given.hpp>
#include <lockstep/data/batches/permutation.hpp>
#include <lockstep/data/tensor_dataset.hpp>

namespace lockstep {

Subset::Subset(std::shared_ptr<const Dataset> whole, std::vector<std::int64_t> samples)
    : whole_(expect_given("Subset", "the data set", std::move(whole))),
      samples_(std::move(samples)) {
  if (samples_.empty()) throw InputError("a subset needs at least one sample");
  const auto [least, greatest] = std::ranges::minmax(samples_);
  if (least >= 0 && greatest < whole_->size()) return;
  throw InputError(fmt::format("a subset of samples {} to {}, but the data set has {}", least,
                               greatest, whole_->size()));
}

std::span<const std::int64_t> Subset::in_whole(std::span<const std::int64_t> indices) const {
  expect_samples(indices, size());
  thread_local std::vector<std::int64_t> numbers;  // grows to this thread's largest batch
  numbers.resize(std::max(numbers.size(), indices.size()));
  for (std::size_t i = 0; i < indices.size(); ++i)
    numbers[i] = samples_[static_cast<std::size_t>(indices[i])];
  return std::span<const std::int64_t>(numbers).first(indices.size());
}

void Subset::load(std::span<const std::int64_t> indices, Batch& batch) const {
  whole_->load(in_whole(indices), batch);
}

void Subset::load_varied(std::span<const std::int64_t> indices, std::int64_t epoch,
                         Batch& batch) const {
  whole_->load_varied(in_whole(indices), epoch, batch);
}

std::vector<std::int64_t> Subset::labels() const {
  const auto all = whole_->labels();
  std::vector<std::int64_t> mine;
  mine.reserve(samples_.size());
  for (const std::int64_t sample : samples_) mine.push_back(all[static_cast<std::size_t>(sample)]);
  return mine;
}

ValidationSplit split_for_validation(std::int64_t n, double fraction) {
  constexpr std::uint64_t stream =
      0x76616c6964617465;  // "validate": separate from every training seed
  const auto held_back = static_cast<std::int64_t>(std::llround(fraction * static_cast<double>(n)));
  if (held_back < 1 || held_back >= n) {
    throw InputError(fmt::format(
        "data.validation_fraction = {} of {} training samples leaves {} to validate and {} to "
        "train on. Choose another fraction, or 0 for none.",
        fraction, n, held_back, n - held_back));
  }
  const Permutation order(n, stream);
  const auto first = order.indices().begin(), end = order.indices().end();
  ValidationSplit split{{first + held_back, end}, {first, first + held_back}};
  std::ranges::sort(split.train);
  std::ranges::sort(split.validation);
  return split;
}

}  // namespace lockstep
