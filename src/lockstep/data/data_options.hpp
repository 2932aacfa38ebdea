#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/data/batches/augment.hpp>
#include <lockstep/data/batches/permutation.hpp>
#include <lockstep/data/dataset.hpp>
#include <lockstep/data/files/csv_table.hpp>
#include <lockstep/data/files/stored_samples.hpp>
#include <lockstep/data/synthetic_dataset.hpp>
#include <lockstep/data/tokens/tokenizer.hpp>

namespace lockstep {

class DeckTable;

enum class DataKind { fashion_mnist, synthetic, hdf5, npy, csv, tokens };

/// Columns of a table.
struct Columns {
  std::vector<std::string> features;  ///< empty: all that are not targets
  std::vector<std::string> targets;   ///< empty: the last one
};

/// Where files hold what, and how they are read.
struct FileOptions {
  /// hdf5: data sets; npy: files train/features.npy, ... in the folder.
  std::string train_features = "train/features", train_targets = "train/targets";
  std::string test_features = "test/features", test_targets = "test/targets";
  /// Further inputs of a sample, beside train_features and test_features: "mask" is train/mask.
  std::vector<std::string> other_features;
  std::vector<std::string> test_path;  ///< of the test set; empty: the training set's
  CsvHeader header = CsvHeader::automatic;
  Columns columns;             ///< csv
  bool named_targets = false;  ///< csv: targets are class_names (DataFiles::completed)
  std::int64_t classes = 0;    ///< 0: the largest label of the training set plus 1
  bool indices = false;        ///< features are integers for an Embedding, and stay as they are
  /// hdf5: elements may stand in other files: virtual data sets, external raw files and links.
  bool allow_external = false;
  bool stream = false;          ///< read samples as they are needed, instead of all at the start
  std::int64_t cache_mib = 64;  ///< decoded chunks kept of each data set
};

/// How token files are read.
struct TokenOptions {
  std::int64_t context = 256;   ///< tokens of a window
  std::int64_t vocabulary = 0;  ///< 0: what the files or their tokenizer say
  /// TokenizerChoice::kind; empty: what tokenizer.json beside the files says. Its characters are
  /// class_names.
  std::string tokenizer;
};

/// The deck's [data] table.
struct DataOptions {
  DataKind kind = DataKind::fashion_mnist;
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
  /// Samples are drawn with replacement: by the weights of this array [N], or such that all classes
  /// are drawn equally often.
  std::string sample_weights;
  bool balance_classes = false;
  Shuffle shuffle;
  std::int64_t prefetch = 2;  ///< batches held by the loader
  AugmentOptions augment;
  SyntheticOptions synthetic;  ///< used with kind = synthetic only
  FileOptions files;           ///< used with hdf5, npy and csv; test_path also with tokens
  TokenOptions tokens;         ///< used with tokens only
};

void declare(DeckTable& table, DataOptions& options);

/// Whether samples stand in files of numbers: hdf5, npy or csv.
[[nodiscard]] bool in_files(DataKind kind) noexcept;

/// What the targets are: tokens of token files, values where they are floating-point numbers in
/// files, else classes. Throws InputError if a file is missing or unfit.
[[nodiscard]] TargetKind target_kind(const DataOptions& options);

/// Loads, opens or generates what the options name; augmentation draws from `seed`. Throws
/// InputError if the data are missing or unfit, have no targets of that kind, or the two sets
/// differ in the shape of samples or targets.
[[nodiscard]] Datasets make_datasets(const DataOptions& options,
                                     TargetKind kind = TargetKind::classes, std::uint64_t seed = 0);

/// The same without a training set, which is then null: `options` are those of as_found, so nothing
/// of it is missing. Throws InputError.
[[nodiscard]] Datasets make_test_set(const DataOptions& options, TargetKind kind);

/// The tokenizer of these token files, which stand where data.path says. Throws InputError if it is
/// not known or its files are missing.
[[nodiscard]] std::unique_ptr<Tokenizer> make_tokenizer(const DataOptions& options);

/// `options` with what make_datasets measured or derived in place of what they left to it.
[[nodiscard]] DataOptions as_found(DataOptions options, const Datasets& sets);

}  // namespace lockstep
