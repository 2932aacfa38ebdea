#include <lockstep/data/data_options.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <lockstep/base/error.hpp>
#include <lockstep/data/batches/weighted_draws.hpp>
#include <lockstep/data/data_sets.hpp>
#include <lockstep/data/files/data_files.hpp>
#include <lockstep/data/subset.hpp>

namespace lockstep {
namespace {

void expect_class_names(const std::vector<std::string>& class_names, const Dataset& data) {
  const auto names = std::ssize(class_names);
  if (names == 0 || names == data.classes()) return;
  throw InputError(fmt::format(
      "data.class_names has {} names, but the data have {} classes. Give one a class, or none.",
      names, data.classes()));
}

void expect_alike(const char* what, const Shape& train, const Shape& test,
                  const std::vector<std::string>& paths) {
  if (train == test) return;
  throw InputError(fmt::format(
      "the data in {} do not belong together: training {} are {}, test {} {}. Get fresh copies of "
      "the files, or name other data sets.",
      fmt::join(paths, ", "), what, to_string(train), what, to_string(test)));
}

/// What a zero, a black pixel, becomes by the normalisation: one value, or one a channel.
std::vector<float> zero_input(const DataFacts& facts) {
  const Normalisation none{{0.0}, {1.0}};
  const std::vector<double>&mean = facts.mean.empty() ? none.mean : facts.mean,
        &std = facts.std.empty() ? none.std : facts.std;
  std::vector<float> zero(std::max(mean.size(), std.size()));
  for (std::size_t c = 0; c < zero.size(); ++c) {
    const auto of_channel = [&](const std::vector<double>& values) {
      return static_cast<float>(values[values.size() == 1 ? 0 : c]);
    };
    zero[c] = (0.0F - of_channel(mean)) / of_channel(std);
  }
  return zero;
}

void expect_kind(const DataOptions& options, TargetKind kind) {
  const bool tokens = options.kind == DataKind::tokens;
  if (tokens && kind != TargetKind::tokens) {
    throw InputError(
        "data.kind = \"tokens\" is for a language model, which the program gpt trains. Use that, "
        "or other data.");
  }
  if (!tokens && kind == TargetKind::tokens) {
    throw InputError(
        "a language model learns tokens: use data.kind = \"tokens\" and data.path, or another "
        "program than gpt.");
  }
  if (kind != TargetKind::values || in_files(options.kind)) return;
  throw InputError(
      "these data have classes, not values to be fitted. Use data.kind = \"hdf5\", \"npy\" or "
      "\"csv\", or the program classify.");
}

void expect_one_order(const DataOptions& options) {
  const bool weights = !options.sample_weights.empty();
  if (weights && !in_files(options.kind)) {
    throw InputError(
        "data.sample_weights names an array in the files of the data, but these data are in none. "
        "Leave it out, or use data.balance_classes.");
  }
  if (weights && options.balance_classes) {
    throw InputError(
        "data.sample_weights and data.balance_classes both say how often samples are drawn. Leave "
        "out one of them.");
  }
  if ((weights || options.balance_classes) && options.shuffle.window > 0) {
    throw InputError(
        "data.shuffle_window keeps neighbours together, but samples that are drawn by weights have "
        "none. Leave out one or the other.");
  }
}

/// Holds part of the training set back, with its weights.
void hold_back(Datasets& sets, double fraction) {
  auto [train, validation] = split_for_validation(sets.train->size(), fraction);
  if (!sets.sample_weights.empty()) {
    std::vector<double> weights;
    for (const std::int64_t sample : train)
      weights.push_back(sets.sample_weights[static_cast<std::size_t>(sample)]);
    sets.sample_weights = std::move(weights);
  }
  sets.validation = std::make_shared<const Subset>(sets.train, std::move(validation));
  sets.train = std::make_shared<const Subset>(sets.train, std::move(train));
}

/// An augmentation moves what stands in the inputs, and would leave the target fields behind.
void expect_targets_stay(const AugmentOptions& augment, const Dataset& train) {
  if (train.target_shape().dims() < 2 || (!augment.flip && augment.crop_padding == 0)) return;
  throw InputError(fmt::format(
      "data.augment_flip and data.augment_crop_padding change the inputs alone, but the "
      "targets are fields, {} each, that would have to move with them. Leave them out.",
      to_string(train.target_shape())));
}

/// Weights that balance the classes of a training set.
std::vector<double> balancing_weights(const Dataset& train) {
  if (train.classes() == 0 || train.target_shape().dims() > 0) {
    throw InputError(
        "data.balance_classes is of one class a sample, which these data have not. Leave it out.");
  }
  return weights_that_balance(train.labels(), train.classes());
}

}  // namespace

bool in_files(DataKind kind) noexcept {
  return kind == DataKind::hdf5 || kind == DataKind::npy || kind == DataKind::csv;
}

TargetKind target_kind(const DataOptions& options) {
  if (options.kind == DataKind::tokens) return TargetKind::tokens;
  if (!in_files(options.kind)) return TargetKind::classes;
  const DataFiles files(options, Split::train);
  const bool classes = files.targets(files.completed(options, TargetKind::classes))->integers();
  return classes ? TargetKind::classes : TargetKind::values;
}

Datasets make_datasets(const DataOptions& options, TargetKind kind, std::uint64_t seed) {
  expect_kind(options, kind);
  expect_one_order(options);
  const bool tokens = options.kind == DataKind::tokens;
  Datasets sets = tokens                   ? token_sets(options)
                  : in_files(options.kind) ? file_sets(options, kind)
                                           : image_sets(options);
  if (sets.test) {
    expect_alike("samples", sets.train->sample_shape(), sets.test->sample_shape(), options.path);
    expect_alike("targets", sets.train->target_shape(), sets.test->target_shape(), options.path);
    for (std::size_t k = 0; k < sets.train->others().size(); ++k) {
      expect_alike("data.other_features", sets.train->others()[k]->sample_shape(),
                   sets.test->others()[k]->sample_shape(), options.path);
    }
  }
  if (!tokens) {
    expect_class_names(sets.facts.class_names, *sets.train);
    sets.augmentation = make_augmentation(options.augment, sets.train->sample_shape(),
                                          zero_input(sets.facts), seed);
  }
  if (kind == TargetKind::values) expect_targets_stay(options.augment, *sets.train);
  if (options.validation_fraction > 0) hold_back(sets, options.validation_fraction);
  if (options.balance_classes) sets.sample_weights = balancing_weights(*sets.train);
  return sets;
}

Datasets make_test_set(const DataOptions& options, TargetKind kind) {
  expect_kind(options, kind);
  if (options.kind == DataKind::tokens) return token_test_set(options);
  return in_files(options.kind) ? file_test_set(options, kind) : image_test_set(options);
}

DataOptions as_found(DataOptions options, const Datasets& sets) {
  if (options.kind == DataKind::tokens) {
    options.tokens.vocabulary = sets.train->classes();
    options.tokens.tokenizer = sets.facts.tokenizer;
    options.class_names = sets.facts.class_names;
    return options;
  }
  options.mean = sets.facts.mean;
  options.std = sets.facts.std;
  options.class_names = sets.facts.class_names;
  options.files.columns = {sets.facts.feature_columns, sets.facts.target_columns};
  if (options.normalise_targets) {
    options.target_mean = sets.facts.target_mean;
    options.target_std = sets.facts.target_std;
  }
  if (in_files(options.kind)) options.files.classes = sets.train->classes();
  return options;
}

}  // namespace lockstep
