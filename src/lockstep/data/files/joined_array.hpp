#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/data/files/stored_array.hpp>

namespace lockstep {

/// The rows of several arrays, one array after another.
class JoinedArray final : public StoredArray {
 public:
  /// Throws InputError if their rows differ in shape, or if only some are integers, or bytes.
  explicit JoinedArray(std::vector<std::shared_ptr<const StoredArray>> parts);

  [[nodiscard]] const Shape& shape() const noexcept override { return shape_; }
  [[nodiscard]] bool integers() const noexcept override { return parts_[0]->integers(); }
  [[nodiscard]] bool bytes() const noexcept override { return parts_[0]->bytes(); }
  [[nodiscard]] const std::string& description() const noexcept override { return description_; }

  void read(std::int64_t begin, std::int64_t end, std::span<float> out) const override;
  void read(std::int64_t begin, std::int64_t end, std::span<std::int64_t> out) const override;
  void read(std::int64_t begin, std::int64_t end, std::span<std::uint8_t> out) const override;
  void expect_unchanged() const override;

 private:
  template <class T>
  void read_rows(std::int64_t begin, std::int64_t end, std::span<T> out) const;

  std::vector<std::shared_ptr<const StoredArray>> parts_;
  std::vector<std::int64_t> ends_;  ///< end of each part, in rows of the whole
  Shape shape_;
  std::string description_;
};

}  // namespace lockstep
