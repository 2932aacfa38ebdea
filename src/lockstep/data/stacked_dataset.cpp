#include <lockstep/data/stacked_dataset.hpp>

#include <fmt/format.h>

#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/base/expect_given.hpp>

namespace lockstep {

StackedDataset::StackedDataset(std::shared_ptr<const Dataset> first,
                               std::vector<std::shared_ptr<const Dataset>> others)
    : first_(expect_given("StackedDataset", "the first data set", std::move(first))),
      others_(std::move(others)) {
  if (others_.empty()) throw InputError("a StackedDataset needs two data sets or more");
  const auto expect_plain = [](const Dataset& data) {
    if (data.others().empty()) return;
    throw InputError("a StackedDataset cannot contain another: give all data sets to one");
  };
  expect_plain(*first_);
  for (const auto& other : others_) {
    expect_plain(*expect_given("StackedDataset", "a data set", other));
    if (other->size() == first_->size()) continue;
    throw InputError(fmt::format(
        "{} samples, but {} in another data set of their inputs. Each needs one row per sample.",
        first_->size(), other->size()));
  }
}

void StackedDataset::load(std::span<const std::int64_t> indices, Batch& batch) const {
  first_->load(indices, batch);
  for (std::size_t k = 0; k < others_.size(); ++k) others_[k]->load(indices, batch.other(k));
}

void StackedDataset::load_varied(std::span<const std::int64_t> indices, std::int64_t epoch,
                                 Batch& batch) const {
  first_->load_varied(indices, epoch, batch);
  for (std::size_t k = 0; k < others_.size(); ++k)
    others_[k]->load_varied(indices, epoch, batch.other(k));
}

}  // namespace lockstep
