#include <lockstep/data/data_options.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include <lockstep/base/error.hpp>
#include <lockstep/data/fashion_mnist.hpp>
#include <lockstep/data/hdf5_dataset.hpp>

namespace lockstep {
namespace {

std::int64_t limited(std::int64_t samples, std::int64_t limit) {
  return limit > 0 ? std::min(samples, limit) : samples;
}

/// What the deck says, and `otherwise` where it is silent.
Normalisation chosen(const DataOptions& options, Normalisation otherwise) {
  if (!options.mean.empty()) otherwise.mean = options.mean;
  if (!options.std.empty()) otherwise.std = options.std;
  return otherwise;
}

Datasets synthetic_sets(const DataOptions& options, const Normalisation& normalisation) {
  SyntheticOptions synthetic = options.synthetic;
  synthetic.samples = limited(synthetic.samples, options.train_limit);
  synthetic.test_samples = limited(synthetic.test_samples, options.test_limit);
  return {make_synthetic(synthetic, Split::train, normalisation),
          make_synthetic(synthetic, Split::test, normalisation),
          {}};
}

Datasets fashion_mnist_sets(const DataOptions& options, const Normalisation& normalisation) {
  const auto folder = find_fashion_mnist(options.path);
  return {load_fashion_mnist(folder, Split::train, normalisation, options.train_limit),
          load_fashion_mnist(folder, Split::test, normalisation, options.test_limit),
          {}};
}

/// The training set's file.
const std::string& hdf5_file(const DataOptions& options) {
  if (options.path != "auto") return options.path;
  throw InputError(
      "data.kind = \"hdf5\" needs data.path, the file, but it is \"auto\". Set it in the deck or "
      "with --set 'data.path=\"FILE\"'.");
}

class Hdf5Sets {
 public:
  Hdf5Sets(const DataOptions& options, TargetKind kind)
      : options_(options), kind_(kind), train_(open(Split::train)), test_(open(Split::test)) {
    if (options.hdf5.indices) expect_as_they_are(options);
    if (kind == TargetKind::classes) {
      classes_ = options.hdf5.classes > 0 ? options.hdf5.classes : count_classes(train_);
      expect_classes(train_, classes_);
      expect_classes(test_, classes_);
    }
  }

  /// None of indices.
  [[nodiscard]] std::optional<Normalisation> normalisation() const {
    if (options_.hdf5.indices) return {};
    const bool told = !options_.mean.empty() && !options_.std.empty();
    return chosen(options_, told ? Normalisation{} : measure_normalisation(train_));
  }

  [[nodiscard]] Datasets sets(const std::optional<Normalisation>& normalisation) const {
    const auto make = [&](const Hdf5Samples& samples) -> std::shared_ptr<const Dataset> {
      if (options_.hdf5.stream)
        return std::make_shared<const Hdf5Dataset>(samples, classes_, normalisation);
      return load_hdf5_samples(samples, classes_, normalisation);
    };
    return {make(train_), make(test_), {}};
  }

 private:
  static void expect_as_they_are(const DataOptions& options) {
    const AugmentOptions& augment = options.augment;
    if (options.mean.empty() && options.std.empty() && augment.crop_padding == 0 && !augment.flip)
      return;
    throw InputError(
        "data.indices = true leaves features as they are, but data.mean, data.std or an "
        "augmentation would change them. Leave out one or the other.");
  }

  [[nodiscard]] Hdf5Samples open(Split split) const {
    const Hdf5Options& o = options_.hdf5;
    const bool train = split == Split::train;
    const std::string& file = hdf5_file(options_);
    return open_hdf5_samples({.file = train || o.test_path.empty() ? file : o.test_path,
                              .features = train ? o.train_features : o.test_features,
                              .targets = train ? o.train_targets : o.test_targets,
                              .cache_bytes = o.cache_mib << 20U},
                             kind_, train ? options_.train_limit : options_.test_limit);
  }

  const DataOptions& options_;
  TargetKind kind_;
  Hdf5Samples train_, test_;
  std::int64_t classes_ = 0;
};

void expect_alike(const char* what, const Shape& train, const Shape& test,
                  const std::string& path) {
  if (train == test) return;
  throw InputError(fmt::format(
      "the data in {} do not belong together: training {} are {}, test {} {}. Get fresh copies of "
      "the files, or name other data sets.",
      path, what, to_string(train), what, to_string(test)));
}

/// What a zero, a black pixel, becomes by the normalisation: one value, or one a channel.
std::vector<float> zero_input(const Normalisation& normalisation) {
  const auto& [mean, std] = normalisation;
  std::vector<float> zero(std::max(mean.size(), std.size()));
  for (std::size_t c = 0; c < zero.size(); ++c) {
    const auto of_channel = [&](const std::vector<double>& values) {
      return static_cast<float>(values[values.size() == 1 ? 0 : c]);
    };
    zero[c] = (0.0F - of_channel(mean)) / of_channel(std);
  }
  return zero;
}

}  // namespace

TargetKind target_kind(const DataOptions& options) {
  if (options.kind != DataKind::hdf5) return TargetKind::classes;
  const Hdf5Array targets(hdf5_file(options), options.hdf5.train_targets);
  return targets.integers() ? TargetKind::classes : TargetKind::values;
}

Datasets make_datasets(const DataOptions& options, TargetKind kind, std::uint64_t seed) {
  if (kind == TargetKind::values && options.kind != DataKind::hdf5) {
    throw InputError(
        "these data have classes, not values to be fitted. Use data.kind = \"hdf5\", or the "
        "program "
        "classify.");
  }
  Normalisation normalisation = chosen(options, {});
  Datasets sets;
  switch (options.kind) {
    case DataKind::fashion_mnist:
      sets = fashion_mnist_sets(options, normalisation);
      break;
    case DataKind::synthetic:
      sets = synthetic_sets(options, normalisation);
      break;
    case DataKind::hdf5: {
      const Hdf5Sets hdf5(options, kind);
      const auto found = hdf5.normalisation();
      sets = hdf5.sets(found);
      if (found) normalisation = *found;
      break;
    }
  }
  expect_alike("samples", sets.train->sample_shape(), sets.test->sample_shape(), options.path);
  expect_alike("targets", sets.train->target_shape(), sets.test->target_shape(), options.path);
  sets.augmentation = make_augmentation(options.augment, sets.train->sample_shape(),
                                        zero_input(normalisation), seed);
  return sets;
}

}  // namespace lockstep
