#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <lockstep/base/error.hpp>

namespace lockstep::test {

using Bytes = std::vector<std::uint8_t>;

/// A folder of its own, removed with its contents at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] std::filesystem::path path() const { return path_; }
  /// Writes a file in the folder and returns its path.
  std::filesystem::path write(const std::string& name, const Bytes& content) const;

 private:
  std::filesystem::path path_;
};

/// An IDX file: 00 00 08 <dims>, the extents big-endian, then `data`.
[[nodiscard]] Bytes idx(const std::vector<std::uint32_t>& extents, const Bytes& data);

/// Bytes 0, 1, 2 ... 255, 0, 1 ...
[[nodiscard]] Bytes counting(std::size_t n);

[[nodiscard]] Bytes gzip(const Bytes& content);

[[nodiscard]] Bytes read_file(const std::filesystem::path& file);

/// The four files of a small data set in MNIST's format, with labels i % 10.
void write_mnist_files(const TemporaryFolder& folder, std::uint32_t train, std::uint32_t test,
                       std::uint32_t height = 4, std::uint32_t width = 3);

/// True if `message` contains `part`; otherwise prints both.
[[nodiscard]] testing::AssertionResult says(const std::string& message, const std::string& part);

/// The message of the InputError thrown by `f`; empty if there is none.
template <class F>
std::string input_error(F&& f) {
  try {
    static_cast<void>(f());
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}
}  // namespace lockstep::test
