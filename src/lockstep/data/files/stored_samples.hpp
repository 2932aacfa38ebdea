#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <lockstep/data/dataset.hpp>
#include <lockstep/data/files/stored_array.hpp>
#include <lockstep/data/normalisation.hpp>

namespace lockstep {

/// The arrays of one half: features [N, ...] and targets [N, ...] of the same samples. Further
/// inputs have no targets.
struct StoredSamples {
  std::shared_ptr<const StoredArray> features, targets;
  std::int64_t size = 0;  ///< number of samples in use: the first so many

  /// "train/features of heat.h5, f32 [1000, 3]": for messages about the whole.
  [[nodiscard]] const std::string& description() const { return features->description(); }
};

/// Pairs them and takes the first `limit` samples (0: all). Throws InputError if a sample is larger
/// than a 32nd of this machine's memory, if there are no samples, if the counts differ, or if
/// classes are not integers [N].
[[nodiscard]] StoredSamples pair_samples(std::shared_ptr<const StoredArray> features,
                                         std::shared_ptr<const StoredArray> targets,
                                         TargetKind kind, std::int64_t limit);

/// Number of classes of integer targets: their largest plus 1. Reads all of them. Throws InputError
/// if one is negative, or if the largest is 1000 or more and fewer than a tenth of the classes
/// occur.
[[nodiscard]] std::int64_t count_classes(const StoredSamples& samples);

/// Throws InputError if a target is not in [0, classes). Reads all of them.
void expect_classes(const StoredSamples& samples, std::int64_t classes);

/// Mean and standard deviation of each channel of the first `rows` rows, divided by `divisor`.
/// Computed in double precision by slabs of a fixed size (pairs of slabs are combined as in Chan,
/// Golub, LeVeque 1983), so every rank gets the same. A constant channel gets deviation 1. Reads
/// all rows. Throws InputError for a number that is not finite.
[[nodiscard]] Normalisation measure_normalisation(const StoredArray& array, std::int64_t rows,
                                                  double divisor);

/// Loads all samples into memory: bytes as bytes, other features as f32. Without a normalisation
/// features are indices, i64. `classes` is 0 for values. Throws InputError if they exceed this
/// machine's memory, a number is not finite, or indices are not stored as integers.
[[nodiscard]] std::shared_ptr<const Dataset> load_samples(
    const StoredSamples& samples, std::int64_t classes,
    const std::optional<Normalisation>& normalisation);

/// Throws InputError if the features, as indices, are not stored as integers.
void expect_indices(const StoredSamples& samples);

/// Throws InputError, naming sample and element, if one of `values` is not finite. They are rows of
/// `array` from `first_row` on.
void expect_finite(std::span<const float> values, std::int64_t first_row, const StoredArray& array);

/// Rows per read: about a MiB as floats, at least one.
[[nodiscard]] std::int64_t slab_rows(const StoredArray& array);

}  // namespace lockstep
