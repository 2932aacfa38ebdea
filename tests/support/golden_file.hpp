#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep::test {

/// One file of reference numbers (tests/golden/README.md). The folder is $LOCKSTEP_GOLDEN_DIR, or
/// tests/golden of the sources. Paths are HDF5 paths without a leading slash.
class GoldenFile {
 public:
  /// Opens "ops.h5". If it is missing, throws Error. But if LOCKSTEP_GOLDEN_DIR is a folder other
  /// than the sources' own, which may hold only some files, the calling test is skipped with a
  /// message.
  explicit GoldenFile(const std::string& name);
  ~GoldenFile();

  [[nodiscard]] std::vector<std::string> groups(const std::string& path) const;  ///< "" = root
  [[nodiscard]] std::vector<std::string> datasets(
      const std::string& path) const;  ///< names in a group
  [[nodiscard]] bool has(const std::string& path) const;
  /// dtypes f32 f64 i32 i64 u8; u16 and u32 become i64.
  [[nodiscard]] Tensor tensor(const std::string& path) const;
  /// Datasets in a group and below that tensor() has not returned: a test that reads the group
  /// would otherwise silently ignore these numbers. Without the `_f32` ones, which PyTorch computed
  /// in single precision: they are part of the tolerances.
  [[nodiscard]] std::vector<std::string> unread(const std::string& path) const;

  [[nodiscard]] bool has_attribute(const std::string& path, const std::string& name) const;
  [[nodiscard]] double number(const std::string& path, const std::string& name) const;
  [[nodiscard]] double number_or(const std::string& path, const std::string& name,
                                 double fallback) const;
  [[nodiscard]] std::vector<double> numbers(const std::string& path, const std::string& name) const;
  [[nodiscard]] std::string text(const std::string& path, const std::string& name) const;

  /// 16 m of the README: the limit of |y - ref| for the *_f64 dataset at `path`.
  [[nodiscard]] double tolerance(const std::string& path) const;

 private:
  struct File;
  std::unique_ptr<File> file_;
};

/// max |y - reference| over all elements in double; +inf if shapes differ or only one is NaN (equal
/// infinities and NaN against NaN count as 0).
[[nodiscard]] double max_difference(const Tensor& y, const Tensor& reference);

}  // namespace lockstep::test
