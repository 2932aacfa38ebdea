#include <lockstep/data/files/stored_samples.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <utility>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/base/expect_given.hpp>
#include <lockstep/data/tensor_dataset.hpp>

namespace lockstep {
namespace {

constexpr std::int64_t slab_bytes = std::int64_t{1} << 20U;

/// Calls f(begin, rows as T) for slabs of the first `size` rows.
template <class T, class F>
void for_each_slab(const StoredArray& array, std::int64_t size, const F& f) {
  const std::int64_t step = slab_rows(array), width = array.row_elements();
  std::vector<T> buffer(static_cast<std::size_t>(std::min(step, size) * width));
  for (std::int64_t begin = 0; begin < size; begin += step) {
    const std::int64_t end = std::min(begin + step, size);
    const auto rows = std::span(buffer).first(static_cast<std::size_t>((end - begin) * width));
    array.read(begin, end, rows);
    f(begin, std::span<const T>(rows));
  }
}

/// The same as floats; checks that all are finite.
template <class F>
void for_each_finite_slab(const StoredArray& array, std::int64_t size, const F& f) {
  for_each_slab<float>(array, size, [&](std::int64_t begin, std::span<const float> rows) {
    expect_finite(rows, begin, array);
    f(begin, rows);
  });
}

/// Count, mean and sum of squared deviations of one channel.
struct Moments {
  double count = 0, mean = 0, squares = 0;

  void join(const Moments& other) {
    const double total = count + other.count, delta = other.mean - mean;
    mean += delta * other.count / total;
    squares += other.squares + delta * delta * count * other.count / total;
    count = total;
  }
};

/// Statistics of channel `c`: `width` neighbours in each row of `channels * width`.
Moments moments_of(std::span<const float> rows, std::int64_t channels, std::int64_t width,
                   std::int64_t c) {
  const auto each = [&](const auto& f) {
    for (std::size_t at = static_cast<std::size_t>(c * width); at < rows.size();
         at += static_cast<std::size_t>(channels * width)) {
      for (std::int64_t i = 0; i < width; ++i)
        f(static_cast<double>(rows[at + static_cast<std::size_t>(i)]));
    }
  };
  const std::int64_t count = std::ssize(rows) / channels;
  Moments m;
  m.count = static_cast<double>(count);
  each([&](double x) { m.mean += x; });
  m.mean /= m.count;
  each([&](double x) { m.squares += (x - m.mean) * (x - m.mean); });
  return m;
}

template <class T>
Tensor read_rows(const StoredArray& array, std::int64_t size) {
  Tensor all = Tensor::empty(array.shape().with_leading(size), dtype_of<T>);
  const std::int64_t step = slab_rows(array);
  for_each_slab<T>(array, size, [&](std::int64_t begin, std::span<const T> rows) {
    if constexpr (std::is_same_v<T, float>) expect_finite(rows, begin, array);
    all.slice(begin, std::min(begin + step, size)).copy_from_host(rows);
  });
  return all;
}

double machine_memory() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

/// In a damaged file with unwritten chunks a sample may be larger than the file itself.
void expect_sample_fits(const StoredArray& array) {
  constexpr double share = 32;  // batches are made of several, and loaded ahead
  const double memory = machine_memory(), needed = 4.0 * static_cast<double>(array.row_elements());
  if (needed <= memory / share) return;
  throw InputError(fmt::format(
      "{}: one sample takes {:.1f} GB, and this machine has {:.1f} GB of memory. Is the "
      "file damaged?",
      array.description(), needed / 1e9, memory / 1e9));
}

void expect_memory(const StoredSamples& samples, double element) {
  const double memory = machine_memory();
  const double needed =
      static_cast<double>(samples.size) *
      (element * static_cast<double>(samples.features->row_elements()) +
       (samples.targets ? 8.0 * static_cast<double>(samples.targets->row_elements()) : 0.0));
  if (needed > memory) {
    throw InputError(
        fmt::format("{}: {} samples need {:.1f} GB in memory, but this machine has {:.1f} GB. "
                    "Stream them from the file: data.stream = true.",
                    samples.description(), samples.size, needed / 1e9, memory / 1e9));
  }
}

}  // namespace

std::int64_t slab_rows(const StoredArray& array) {
  return std::max<std::int64_t>(1,
                                slab_bytes / std::max<std::int64_t>(1, array.row_elements() * 4));
}

void expect_finite(std::span<const float> values, std::int64_t first_row,
                   const StoredArray& array) {
  const auto bad = std::ranges::find_if(values, [](float x) { return !std::isfinite(x); });
  if (bad == values.end()) return;
  const std::int64_t at = bad - values.begin(), width = array.row_elements();
  throw InputError(fmt::format(
      "{}: element {} of sample {} is {}, which cannot be used for training: repair the data.",
      array.description(), at % width, first_row + at / width, *bad));
}

StoredSamples pair_samples(std::shared_ptr<const StoredArray> all_features,
                           std::shared_ptr<const StoredArray> all_targets, TargetKind kind,
                           std::int64_t limit) {
  StoredSamples samples{
      expect_given("pair_samples", "the array of features", std::move(all_features)),
      expect_given("pair_samples", "the array of targets", std::move(all_targets)), 0};
  const StoredArray& features = *samples.features;
  const StoredArray& targets = *samples.targets;
  if (features.rows() != targets.rows()) {
    throw InputError(fmt::format(
        "{} samples in {}, but {} targets in {}. Name two data sets with one row per sample each.",
        features.rows(), features.description(), targets.rows(), targets.description()));
  }
  if (features.shape().numel() == 0 || targets.shape().numel() == 0) {
    throw InputError(fmt::format("nothing to read in {} and {}: a data set needs samples.",
                                 features.description(), targets.description()));
  }
  if (kind == TargetKind::classes && !(targets.integers() && targets.row_elements() == 1)) {
    throw InputError(fmt::format(
        "classes must be integers [N], but the targets are {}. Name other targets, or fit values "
        "with the program regress.",
        targets.description()));
  }
  expect_sample_fits(features);
  expect_sample_fits(targets);
  samples.size = limit > 0 ? std::min(features.rows(), limit) : features.rows();
  return samples;
}

std::int64_t count_classes(const StoredSamples& samples) {
  // A flipped bit of one label must not lead to a model with 2^30 outputs.
  constexpr std::int64_t few = 1000, most_classes_a_present_one = 10;
  std::int64_t largest = 0, sample = 0;
  std::unordered_set<std::int64_t> present;
  for_each_slab<std::int64_t>(*samples.targets, samples.size,
                              [&](std::int64_t begin, std::span<const std::int64_t> labels) {
                                present.insert(labels.begin(), labels.end());
                                const auto at = std::ranges::max_element(labels);
                                if (*at <= largest) return;
                                largest = *at;
                                sample = begin + (at - labels.begin());
                              });
  if (largest >= few && largest / most_classes_a_present_one >= std::ssize(present)) {
    throw InputError(fmt::format(
        "{}: label {} of sample {} is far above the others: {} labels occur. Is the file damaged? "
        "If the label is meant, set data.classes.",
        samples.targets->description(), largest, sample, present.size()));
  }
  expect_classes(samples, largest + 1);
  return largest + 1;
}

void expect_classes(const StoredSamples& samples, std::int64_t classes) {
  for_each_slab<std::int64_t>(*samples.targets, samples.size,
                              [&](std::int64_t begin, std::span<const std::int64_t> labels) {
                                expect_classes(labels, begin, classes,
                                               samples.targets->description());
                              });
}

// Computed on the stored numbers: equal ones then sum without rounding.
Normalisation measure_normalisation(const StoredArray& array, std::int64_t rows, double divisor) {
  const std::int64_t channels = sample_shape_of(array.shape())[0];
  const std::int64_t width = array.row_elements() / channels;
  std::vector<Moments> moments(static_cast<std::size_t>(channels));
  for_each_finite_slab(array, rows, [&](std::int64_t, std::span<const float> slab) {
    for (std::int64_t c = 0; c < channels; ++c) {
      moments[static_cast<std::size_t>(c)].join(moments_of(slab, channels, width, c));
    }
  });
  Normalisation normalisation{{}, {}};
  for (const Moments& m : moments) {
    const double deviation = std::sqrt(m.squares / m.count);
    normalisation.mean.push_back(m.mean / divisor);
    normalisation.std.push_back(deviation > 0 ? deviation / divisor : 1.0);
  }
  return normalisation;
}

void expect_indices(const StoredSamples& samples) {
  if (samples.features->integers()) return;
  throw InputError(
      fmt::format("data.indices = true needs features that are integers, not {}. Name other "
                  "features, or leave it out.",
                  samples.description()));
}

std::shared_ptr<const Dataset> load_samples(const StoredSamples& samples, std::int64_t classes,
                                            const std::optional<Normalisation>& normalisation) {
  const StoredArray& array = *samples.features;
  if (!normalisation) expect_indices(samples);
  const double element_of_numbers = array.bytes() ? 1 : 4;
  expect_memory(samples, normalisation ? element_of_numbers : 8);
  const Tensor targets =
      !samples.targets ? no_targets(samples.size)
      : classes > 0
          ? read_rows<std::int64_t>(*samples.targets, samples.size).reshape({samples.size})
          : read_rows<float>(*samples.targets, samples.size);
  if (!normalisation) {
    return std::make_shared<const TensorDataset>(read_rows<std::int64_t>(array, samples.size),
                                                 targets, classes, samples.description());
  }
  Tensor features = array.bytes() ? read_rows<std::uint8_t>(array, samples.size)
                                  : read_rows<float>(array, samples.size);
  return std::make_shared<const TensorDataset>(std::move(features), targets, classes,
                                               *normalisation, samples.description());
}

}  // namespace lockstep
