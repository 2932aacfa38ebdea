#include <lockstep/data/streamed_dataset.hpp>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <vector>

#include <lockstep/base/expect_given.hpp>
#include <lockstep/data/tensor_dataset.hpp>

namespace lockstep {
namespace {

/// A buffer for one slab, between file and batch.
template <class T>
std::vector<T> slab_buffer(const StoredArray& array) {
  return std::vector<T>(static_cast<std::size_t>(slab_rows(array) * array.row_elements()));
}

}  // namespace

struct StreamedDataset::State {
  /// Reads the samples `indices`, in the order of the file, into their places in `out` [n, ...].
  template <class T>
  void read(const StoredArray& array, std::span<const std::int64_t> indices, std::vector<T>& buffer,
            const Tensor& out) {
    const auto index = [&](std::size_t k) { return indices[static_cast<std::size_t>(order[k])]; };
    const auto longest = static_cast<std::size_t>(slab_rows(array));
    for (std::size_t k = 0; k < order.size();) {
      std::size_t count = 1;
      while (k + count < order.size() && count < longest &&
             index(k + count) == index(k + count - 1) + 1 &&
             order[k + count] == order[k + count - 1] + 1) {
        ++count;
      }
      const auto rows = static_cast<std::int64_t>(count);
      const auto slab =
          std::span(buffer).first(count * static_cast<std::size_t>(array.row_elements()));
      array.read(index(k), index(k) + rows, slab);
      if constexpr (std::is_same_v<T, float>) expect_finite(slab, index(k), array);
      out.slice(order[k], order[k] + rows).copy_from_host(std::span<const T>(slab));
      k += count;
    }
  }

  void sort(std::span<const std::int64_t> indices, const Batch& batch) {
    order.reserve(static_cast<std::size_t>(batch.capacity()));
    order.resize(indices.size());
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::ranges::sort(order, {}, [&](std::int64_t place) {
      return std::pair(indices[static_cast<std::size_t>(place)], place);
    });
  }

  StoredSamples samples;
  std::int64_t classes;
  Shape sample_shape, target_shape;
  std::optional<ChannelScale> scale;  ///< none: samples are indices
  std::mutex mutex;                   // guards the members below
  std::vector<std::int64_t> order;    // places in the batch, by sample number
  std::vector<float> features, values;
  std::vector<std::int64_t> codes, labels;
};

StreamedDataset::StreamedDataset(const StoredSamples& samples, std::int64_t classes,
                                 const std::optional<Normalisation>& normalisation)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.samples = samples;
  s.classes = classes;
  if (classes == 0)
    s.target_shape = samples.targets ? target_shape_of(samples.targets->shape()) : Shape{0};
  const StoredArray& array =
      *expect_given("StreamedDataset", "the array of features", samples.features);
  if (normalisation) {
    s.sample_shape = sample_shape_of(array.shape());
    s.scale = channel_scale(*normalisation, s.sample_shape, array.bytes() ? DType::u8 : DType::f32,
                            samples.description());
    s.features = slab_buffer<float>(array);
  } else {
    expect_indices(samples);
    s.sample_shape = target_shape_of(array.shape());
    s.codes = slab_buffer<std::int64_t>(array);
  }
  if (!samples.targets) return;
  if (classes > 0) {
    s.labels = slab_buffer<std::int64_t>(*samples.targets);
  } else {
    s.values = slab_buffer<float>(*samples.targets);
  }
}
StreamedDataset::~StreamedDataset() = default;

std::int64_t StreamedDataset::size() const noexcept { return state_->samples.size; }
Shape StreamedDataset::sample_shape() const { return state_->sample_shape; }
DType StreamedDataset::input_dtype() const noexcept {
  return state_->scale ? DType::f32 : DType::i64;
}
std::int64_t StreamedDataset::classes() const noexcept { return state_->classes; }
Shape StreamedDataset::target_shape() const { return state_->target_shape; }

std::vector<std::int64_t> StreamedDataset::labels() const {
  std::vector<std::int64_t> all(static_cast<std::size_t>(size()));
  state_->samples.targets->read(0, size(), std::span(all));
  return all;
}

void StreamedDataset::load(std::span<const std::int64_t> indices, Batch& batch) const {
  State& s = *state_;
  expect_samples(indices, size());
  batch.reset(indices);
  const std::lock_guard lock(s.mutex);
  s.samples.features->expect_unchanged();
  if (s.samples.targets) s.samples.targets->expect_unchanged();
  s.sort(indices, batch);
  if (s.scale) {
    s.read(*s.samples.features, indices, s.features, batch.inputs());
    normalise(batch.inputs(), *s.scale);
  } else {
    s.read(*s.samples.features, indices, s.codes, batch.inputs());
  }
  if (!s.samples.targets) return;
  if (s.classes > 0) {
    s.read(*s.samples.targets, indices, s.labels, batch.targets());
  } else {
    s.read(*s.samples.targets, indices, s.values, batch.targets());
  }
}

}  // namespace lockstep
