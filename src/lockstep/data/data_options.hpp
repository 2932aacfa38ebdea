#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/data/batches/augment.hpp>
#include <lockstep/data/batches/permutation.hpp>
#include <lockstep/data/data_kind.hpp>
#include <lockstep/data/fashion_mnist.hpp>
#include <lockstep/data/file_sets.hpp>
#include <lockstep/data/images/image_options.hpp>
#include <lockstep/data/normalisation.hpp>
#include <lockstep/data/synthetic_dataset.hpp>
#include <lockstep/data/tokens/token_sets.hpp>

namespace lockstep {

/// The deck's [data] table: data of one kind, and what all kinds have.
struct DataOptions {
  DataKind kind;  ///< FashionMnistOptions, SyntheticOptions, Hdf5Options ... or one's own
  /// Files, folders or patterns of their names; fashion_mnist: the folder of IDX files, or "auto":
  /// find_fashion_mnist; tokens: token files, or folders of them.
  std::vector<std::string> path{"auto"};
  /// Normalisation; empty: MNIST's, or what measure_normalisation finds in files.
  std::vector<double> mean, std;
  /// Of targets that are values, where normalise_targets asks for it; empty: the training set's.
  bool normalise_targets = false;
  std::vector<double> target_mean, target_std;
  std::vector<std::string> class_names;  ///< one a class; empty: they have none
  std::int64_t train_limit = 0;          ///< use the first so many training samples; 0: all
  std::int64_t test_limit = 0;           ///< the same of the test samples
  double validation_fraction = 0;  ///< of the training samples, held back: split_for_validation
  bool test_set = true;            ///< false: there is none
  /// Samples are drawn with replacement such that all classes are drawn equally often.
  bool balance_classes = false;
  Shuffle shuffle;
  std::int64_t prefetch = 2;  ///< batches held by the loader
  AugmentOptions augment;

  /// Of data in files of numbers: hdf5, npy or csv. Of others null; files() then throws Error.
  [[nodiscard]] const FileOptions* in_files() const noexcept;
  [[nodiscard]] const FileOptions& files() const;
  [[nodiscard]] FileOptions& files();
  /// What mean and std say, and `otherwise` where they are silent.
  [[nodiscard]] Normalisation normalisation(Normalisation otherwise = {}) const;
};
void declare(DeckTable& table, DataOptions& options);

/// What the targets are: tokens of token files, values where they are floating-point numbers in
/// files, else classes; of one's own data what they say. Throws InputError if a file is missing or
/// unfit.
[[nodiscard]] TargetKind target_kind(const DataOptions& options);

/// Loads, opens or generates what the options name; augmentation draws from `seed`. Throws
/// InputError if the data are missing or unfit, have no targets of that kind, or the two sets
/// differ in the shape of samples or targets.
[[nodiscard]] Datasets make_datasets(const DataOptions& options,
                                     TargetKind kind = TargetKind::classes, std::uint64_t seed = 0);

/// The same without a training set, which is then null: `options` are those of as_found, so nothing
/// of it is missing. Throws InputError.
[[nodiscard]] Datasets make_test_set(const DataOptions& options, TargetKind kind);

/// `options` with what make_datasets measured or derived in place of what they left to it.
[[nodiscard]] DataOptions as_found(DataOptions options, const Datasets& sets);

}  // namespace lockstep
