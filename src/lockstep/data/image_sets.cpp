#include <fmt/format.h>

#include <algorithm>

#include <lockstep/base/error.hpp>
#include <lockstep/data/data_options.hpp>
#include <lockstep/data/fashion_mnist.hpp>

namespace lockstep {
namespace {

std::int64_t limited(std::int64_t samples, std::int64_t limit) {
  return limit > 0 ? std::min(samples, limit) : samples;
}

/// Facts about images stored as bytes.
DataFacts facts_of_images(const DataOptions& options, const Normalisation& normalisation) {
  return {.divisor = 255,
          .mean = normalisation.mean,
          .std = normalisation.std,
          .class_names = options.class_names};
}

const std::string& only_folder(const DataOptions& options) {
  if (options.path.size() == 1) return options.path[0];
  throw InputError(fmt::format("data.path names {} folders, but Fashion-MNIST needs exactly one.",
                               options.path.size()));
}

/// `image_set` gives one half.
template <class ImageSet>
Datasets image_sets(const DataOptions& all, TargetKind kind, Sets wanted,
                    const ImageSet& image_set) {
  expect_no_tokens(kind);
  if (kind == TargetKind::values) {
    throw InputError(
        "these data have classes, not values to fit. Use data.kind = \"hdf5\", \"npy\" or "
        "\"csv\", or the program classify.");
  }
  const Normalisation normalisation = all.normalisation(mnist_normalisation());
  const bool both = wanted == Sets::train_and_test;
  Datasets sets{
      .train = {}, .test = {}, .augmentation = {}, .facts = facts_of_images(all, normalisation)};
  if (both) sets.train = image_set(Split::train, normalisation);
  if (!both || all.test_set) sets.test = image_set(Split::test, normalisation);
  return sets;
}

}  // namespace

Datasets FashionMnistOptions::make(const DataOptions& all, TargetKind kind, Sets wanted) {
  return image_sets(all, kind, wanted, [&](Split split, const Normalisation& normalisation) {
    return load_fashion_mnist(find_fashion_mnist(only_folder(all)), split, normalisation,
                              split == Split::train ? all.train_limit : all.test_limit);
  });
}

Datasets SyntheticOptions::make(const DataOptions& all, TargetKind kind, Sets wanted) const {
  SyntheticOptions limits = *this;
  limits.samples = limited(samples, all.train_limit);
  limits.test_samples = limited(test_samples, all.test_limit);
  return image_sets(all, kind, wanted, [&](Split split, const Normalisation& normalisation) {
    return make_synthetic(limits, split, normalisation);
  });
}

void declare(DeckTable& table, SyntheticOptions& synthetic) {
  table.key("synthetic_samples", synthetic.samples,
            {.doc = "training samples", .min = 1.0, .max = 1e8});
  table.key("synthetic_test_samples", synthetic.test_samples,
            {.doc = "test samples", .min = 1.0, .max = 1e8});
  table.key("synthetic_classes", synthetic.classes, {.doc = "classes", .min = 2.0, .max = 256.0});
  table.key("synthetic_image_size", synthetic.image_size,
            {.doc = "height and width", .unit = "pixels", .min = 1.0, .max = 4096.0});
  table.key("synthetic_channels", synthetic.channels,
            {.doc = "channels of an image", .min = 1.0, .max = 64.0});
  table.key("synthetic_noise", synthetic.noise,
            {.doc = "share of noise in a pixel; 1: nothing to learn", .min = 0.0, .max = 1.0});
  table.key("synthetic_seed", synthetic.seed, {.doc = "seed of patterns and noise"});
}

}  // namespace lockstep
