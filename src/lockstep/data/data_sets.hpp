#pragma once
#include <filesystem>
#include <vector>

#include <lockstep/data/data_options.hpp>

// What make_datasets and make_test_set do for each kind of data: train, test, facts and sample
// weights. All throw InputError.

namespace lockstep {

[[nodiscard]] Datasets image_sets(const DataOptions& options);
[[nodiscard]] Datasets image_test_set(const DataOptions& options);

[[nodiscard]] Datasets file_sets(const DataOptions& options, TargetKind kind);
[[nodiscard]] Datasets file_test_set(const DataOptions& options, TargetKind kind);

[[nodiscard]] Datasets token_sets(const DataOptions& options);
[[nodiscard]] Datasets token_test_set(const DataOptions& options);

/// What the deck says, and `otherwise` where it is silent.
[[nodiscard]] inline Normalisation chosen_normalisation(const DataOptions& options,
                                                        Normalisation otherwise) {
  if (!options.mean.empty()) otherwise.mean = options.mean;
  if (!options.std.empty()) otherwise.std = options.std;
  return otherwise;
}

}  // namespace lockstep
