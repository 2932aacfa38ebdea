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

/// The deck's [data] table: the options of one kind, and those common to all.
struct DataOptions {
  DataKind kind;  ///< FashionMnistOptions, SyntheticOptions, Hdf5Options ... or a kind of your own
  /// Files, folders or patterns of their names. fashion_mnist: the folder of IDX files, or "auto":
  /// find_fashion_mnist. tokens: token files, or folders of them.
  std::vector<std::string> path{"auto"};
  /// Normalisation; empty: MNIST's, or for files the result of measure_normalisation.
  std::vector<double> mean, std;
  /// The same for value targets with normalise_targets; empty: the training set's.
  bool normalise_targets = false;
  std::vector<double> target_mean, target_std;
  std::vector<std::string> class_names;  ///< one per class; empty: no names
  std::int64_t train_limit = 0;          ///< use only the first so many training samples; 0: all
  std::int64_t test_limit = 0;           ///< the same of the test samples
  double validation_fraction =
      0;                 ///< fraction of the training samples held back: split_for_validation
  bool test_set = true;  ///< false: there is no test set
  /// Draws samples with replacement, all classes equally often.
  bool balance_classes = false;
  Shuffle shuffle;
  std::int64_t prefetch = 2;  ///< number of batches held by the loader
  AugmentOptions augment;

  /// For data in files of numbers (hdf5, npy or csv); null for others. files() then throws Error.
  [[nodiscard]] const FileOptions* in_files() const noexcept;
  [[nodiscard]] const FileOptions& files() const;
  [[nodiscard]] FileOptions& files();
  /// The normalisation from mean and std; `otherwise` where they are empty.
  [[nodiscard]] Normalisation normalisation(Normalisation otherwise) const;
};
void declare(DeckTable& table, DataOptions& options);

/// Kind of the targets: tokens for token files, values if files hold floating-point numbers, else
/// classes; a kind of your own decides itself. Throws InputError if a file is missing or unfit.
[[nodiscard]] TargetKind target_kind(const DataOptions& options);

/// Loads, opens or generates the data of the options; augmentation draws from `seed`. Throws
/// InputError if the data are missing or unfit, have no targets of that kind, or the two sets
/// differ in the shape of samples or targets.
[[nodiscard]] Datasets make_datasets(const DataOptions& options,
                                     TargetKind kind = TargetKind::classes, std::uint64_t seed = 0);

/// The same without a training set, which is then null. `options` come from as_found, so they lack
/// nothing of it. Throws InputError.
[[nodiscard]] Datasets make_test_set(const DataOptions& options, TargetKind kind);

/// `options`, with the values that make_datasets measured or derived filled in.
[[nodiscard]] DataOptions as_found(DataOptions options, const Datasets& sets);

}  // namespace lockstep
