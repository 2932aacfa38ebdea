#include <lockstep/data/data_options.hpp>

#include <algorithm>

#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

std::int64_t limited(std::int64_t samples, std::int64_t limit) {
  return limit > 0 ? std::min(samples, limit) : samples;
}

Datasets synthetic_sets(const DataOptions& options) {
  SyntheticOptions synthetic = options.synthetic;
  synthetic.samples = limited(synthetic.samples, options.train_limit);
  synthetic.test_samples = limited(synthetic.test_samples, options.test_limit);
  return {make_synthetic(synthetic, Split::train, options.normalisation),
          make_synthetic(synthetic, Split::test, options.normalisation)};
}

Datasets fashion_mnist_sets(const DataOptions& options) {
  const auto folder = find_fashion_mnist(options.path);
  Datasets sets{
      load_fashion_mnist(folder, Split::train, options.normalisation, options.train_limit),
      load_fashion_mnist(folder, Split::test, options.normalisation, options.test_limit)};
  if (sets.train->sample_shape() != sets.test->sample_shape()) {
    throw InputError("the data in " + folder.string() +
                     " do not belong together: training images are " +
                     to_string(sets.train->sample_shape()) + ", test images " +
                     to_string(sets.test->sample_shape()) + ". Get fresh copies of the files.");
  }
  return sets;
}

}  // namespace

Datasets make_datasets(const DataOptions& options) {
  return options.kind == DataKind::synthetic ? synthetic_sets(options)
                                             : fashion_mnist_sets(options);
}

}  // namespace lockstep
