#pragma once
#include <cstdint>
#include <string>

#include <lockstep/data/dataset.hpp>
#include <lockstep/data/image_dataset.hpp>
#include <lockstep/data/synthetic_dataset.hpp>

namespace lockstep {

class DeckTable;

enum class DataKind { fashion_mnist, synthetic };

/// The deck's [data] table.
struct DataOptions {
  DataKind kind = DataKind::fashion_mnist;
  std::string path = "auto";  ///< folder of the files, or "auto": find_fashion_mnist
  Normalisation normalisation;
  std::int64_t train_limit = 0;  ///< use the first so many training samples; 0: all
  std::int64_t test_limit = 0;   ///< the same of the test samples
  bool shuffle = true;           ///< a new order every epoch; false: the files' order
  std::int64_t prefetch = 2;     ///< batches held by the loader
  SyntheticOptions synthetic;    ///< used with kind = synthetic only
};

void declare(DeckTable& table, DataOptions& options);

/// Loads or generates what the options name. Throws InputError if the data are missing or unfit, or
/// the two sets differ in the shape of a sample.
[[nodiscard]] Datasets make_datasets(const DataOptions& options);

}  // namespace lockstep
