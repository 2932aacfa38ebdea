#include <lockstep/data/files/joined_array.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <lockstep/base/error.hpp>
#include <lockstep/base/expect_given.hpp>

namespace lockstep {

JoinedArray::JoinedArray(std::vector<std::shared_ptr<const StoredArray>> parts)
    : parts_(std::move(parts)) {
  for (const auto& part : parts_) expect_given("JoinedArray", "a part", part);
  const StoredArray& first = *parts_.at(0);
  std::int64_t rows = 0;
  for (const auto& part : parts_) {
    const bool alike = part->shape().with_leading(first.rows()) == first.shape() &&
                       part->integers() == first.integers() && part->bytes() == first.bytes();
    if (!alike) {
      throw InputError(
          fmt::format("{} and {} cannot be joined: their shapes, apart from the number of samples, "
                      "and kinds of numbers must be the same.",
                      first.description(), part->description()));
    }
    rows += part->rows();
    ends_.push_back(rows);
  }
  shape_ = first.shape().with_leading(rows);
  description_ =
      fmt::format("{} and {} more, {} samples", first.description(), parts_.size() - 1, rows);
}

template <class T>
void JoinedArray::read_rows(std::int64_t begin, std::int64_t end, std::span<T> out) const {
  expect_rows(begin, end, std::ssize(out));
  auto part = static_cast<std::size_t>(std::ranges::upper_bound(ends_, begin) - ends_.begin());
  for (; begin < end; ++part) {
    const std::int64_t first = ends_[part] - parts_[part]->rows(),
                       last = std::min(end, ends_[part]);
    const auto count = static_cast<std::size_t>((last - begin) * row_elements());
    parts_[part]->read(begin - first, last - first, out.first(count));
    out = out.subspan(count);
    begin = last;
  }
}

void JoinedArray::read(std::int64_t begin, std::int64_t end, std::span<float> out) const {
  read_rows(begin, end, out);
}
void JoinedArray::read(std::int64_t begin, std::int64_t end, std::span<std::int64_t> out) const {
  read_rows(begin, end, out);
}
void JoinedArray::read(std::int64_t begin, std::int64_t end, std::span<std::uint8_t> out) const {
  read_rows(begin, end, out);
}

void JoinedArray::expect_unchanged() const {
  for (const auto& part : parts_) part->expect_unchanged();
}

}  // namespace lockstep
