#include <fmt/format.h>

#include <algorithm>

#include <lockstep/base/error.hpp>
#include <lockstep/data/data_sets.hpp>
#include <lockstep/data/fashion_mnist.hpp>

namespace lockstep {
namespace {

std::int64_t limited(std::int64_t samples, std::int64_t limit) {
  return limit > 0 ? std::min(samples, limit) : samples;
}

/// What is known of images that are bytes.
DataFacts facts_of_images(const DataOptions& options, const Normalisation& normalisation) {
  return {.divisor = 255,
          .mean = normalisation.mean,
          .std = normalisation.std,
          .class_names = options.class_names};
}

const std::string& only_folder(const DataOptions& options) {
  if (options.path.size() == 1) return options.path[0];
  throw InputError(
      fmt::format("data.path names {} folders, but Fashion-MNIST is in one.", options.path.size()));
}

std::shared_ptr<const Dataset> image_set(const DataOptions& options,
                                         const Normalisation& normalisation, Split split) {
  if (options.kind == DataKind::fashion_mnist) {
    return load_fashion_mnist(find_fashion_mnist(only_folder(options)), split, normalisation,
                              split == Split::train ? options.train_limit : options.test_limit);
  }
  SyntheticOptions synthetic = options.synthetic;
  synthetic.samples = limited(synthetic.samples, options.train_limit);
  synthetic.test_samples = limited(synthetic.test_samples, options.test_limit);
  return make_synthetic(synthetic, split, normalisation);
}

}  // namespace

Datasets image_sets(const DataOptions& options) {
  const Normalisation normalisation = chosen_normalisation(options, {});
  return {.train = image_set(options, normalisation, Split::train),
          .test = options.test_set ? image_set(options, normalisation, Split::test) : nullptr,
          .augmentation = {},
          .facts = facts_of_images(options, normalisation)};
}

Datasets image_test_set(const DataOptions& options) {
  const Normalisation normalisation = chosen_normalisation(options, {});
  return {.train = {},
          .test = image_set(options, normalisation, Split::test),
          .augmentation = {},
          .facts = facts_of_images(options, normalisation)};
}

}  // namespace lockstep
