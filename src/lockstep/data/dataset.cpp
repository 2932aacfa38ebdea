#include <lockstep/data/dataset.hpp>

#include <algorithm>
#include <numeric>

#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

Shape batch_shape(const Shape& sample, std::int64_t capacity) {
  std::array<std::int64_t, Shape::max_dims> extents{capacity};
  std::copy(sample.begin(), sample.end(), extents.begin() + 1);
  return Shape(
      std::span<const std::int64_t>(extents).first(static_cast<std::size_t>(sample.dims()) + 1));
}

}  // namespace

Batch::Batch(const Dataset& dataset, std::int64_t capacity, Device device)
    : all_inputs_(Tensor::zeros(batch_shape(dataset.sample_shape(), capacity),
                                dataset.input_dtype(), device)),
      all_targets_(Tensor::zeros(batch_shape(dataset.target_shape(), capacity),
                                 dataset.target_dtype(), device)),
      all_indices_(Tensor::zeros({capacity}, DType::i64, device)) {
  for (const auto& other : dataset.others()) others_.emplace_back(*other, capacity, device);
  reset({});
}

std::int64_t Batch::capacity() const noexcept {
  return all_indices_.defined() ? all_indices_.numel() : 0;
}

Batch Batch::pinned(const Dataset& dataset, std::int64_t capacity, DeviceType type) {
  Batch batch(dataset, capacity);
  batch.pin(type);
  return batch;
}

void Batch::pin(DeviceType type) {
  all_inputs_ = all_inputs_.pin_memory(type);
  all_targets_ = all_targets_.pin_memory(type);
  all_indices_ = all_indices_.pin_memory(type);
  for (Batch& other : others_) other.pin(type);
  make_room(0);
}

void Batch::make_room(std::int64_t n) {
  if (n > capacity()) {
    throw ShapeError("a batch with room for " + std::to_string(capacity()) +
                     " samples cannot take " + std::to_string(n));
  }
  inputs_ = all_inputs_.slice(0, n);
  targets_ = all_targets_.slice(0, n);
  indices_ = all_indices_.slice(0, n);
  for (Batch& other : others_) other.make_room(n);
  size_ = n;
}

void Batch::reset(std::span<const std::int64_t> indices) {
  make_room(static_cast<std::int64_t>(indices.size()));
  indices_.copy_from_host(indices);
  for (Batch& other : others_) other.indices_.copy_from_host(indices);
}

void Batch::copy_from(const Batch& other) {
  make_room(other.size());
  inputs_.copy_from(other.inputs_, true);
  targets_.copy_from(other.targets_, true);
  indices_.copy_from(other.indices_, true);
  for (std::size_t k = 0; k < others_.size(); ++k) others_[k].copy_from(other.others_.at(k));
}

void Batch::record_stream(const Stream& stream) const {
  all_inputs_.record_stream(stream);
  all_targets_.record_stream(stream);
  all_indices_.record_stream(stream);
  for (const Batch& other : others_) other.record_stream(stream);
}

Batch Batch::slice(std::int64_t begin, std::int64_t end) const {
  Batch part;
  part.inputs_ = part.all_inputs_ = inputs_.slice(begin, end);
  part.targets_ = part.all_targets_ = targets_.slice(begin, end);
  part.indices_ = part.all_indices_ = indices_.slice(begin, end);
  for (const Batch& other : others_) part.others_.push_back(other.slice(begin, end));
  part.size_ = end - begin;
  return part;
}

std::vector<std::int64_t> Dataset::labels() const {
  constexpr std::int64_t at_once = 256;
  Batch batch(*this, std::min(size(), at_once));
  std::vector<std::int64_t> all, numbers;
  for (std::int64_t begin = 0; begin < size(); begin += at_once) {
    numbers.resize(static_cast<std::size_t>(std::min(at_once, size() - begin)));
    std::iota(numbers.begin(), numbers.end(), begin);
    load(numbers, batch);
    const auto some = batch.targets().to_vector<std::int64_t>();
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

Batch Batch::mapped(const std::function<Tensor(const Tensor&)>& f) const {
  Batch other = *this;
  other.inputs_ = other.all_inputs_ = f(inputs_);
  other.targets_ = other.all_targets_ = f(targets_);
  return other;
}

Batch Batch::to(DType dtype) const {
  const auto converted = [dtype](const Tensor& t) {
    return is_floating(t.dtype()) ? t.to(dtype).clone() : t.clone();
  };
  Batch copy = *this;
  copy.inputs_ = copy.all_inputs_ = converted(inputs_);
  copy.targets_ = copy.all_targets_ = converted(targets_);
  copy.indices_ = copy.all_indices_ = indices_.clone();
  for (Batch& other : copy.others_) other = other.to(dtype);
  return copy;
}

}  // namespace lockstep
