#include <comm/tensors.hpp>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <string_view>

#include <gtest/gtest.h>
#include <lockstep/tensor/half.hpp>

namespace lockstep::test {
namespace {

constexpr std::uint8_t guard_byte = 0xA5;
constexpr std::int64_t guard_bytes = 24;

template <class T>
std::vector<T> converted(const std::vector<double>& values) {
  std::vector<T> elements;
  elements.reserve(values.size());
  for (const double value : values) {
    if constexpr (std::is_arithmetic_v<T>) {
      elements.push_back(static_cast<T>(value));
    } else {
      elements.push_back(T(static_cast<float>(value)));
    }
  }
  return elements;
}

/// Calls f with an element of the type that a tensor's elements are seen as; bool as bytes.
template <class F>
auto with_element(DType dtype, const F& f) {
  switch (dtype) {
    case DType::f64:
      return f(double{});
    case DType::bf16:
      return f(BFloat16{});
    case DType::f16:
      return f(Float16{});
    case DType::i32:
      return f(std::int32_t{});
    case DType::i64:
      return f(std::int64_t{});
    case DType::u8:
    case DType::boolean:
      return f(std::uint8_t{});
    case DType::f32:
      break;
  }
  return f(float{});
}

/// The same elements on the host: `t` itself, if that is where it lies.
Tensor on_host(const Tensor& t) {
  if (t.device().type == DeviceType::host) return t;
  auto copy = Tensor::empty(t.shape(), t.dtype());
  device_memory.read(t, copy.data());
  return copy;
}

Tensor countable(const Tensor& t) { return t.dtype() == DType::boolean ? as_bytes(t) : t; }

}  // namespace

DeviceMemory asked_for_memory() {
  const char* text = std::getenv("LOCKSTEP_TEST_DEVICE");
  return text && std::string_view(text) == "sim" ? simulated_memory() : DeviceMemory{};
}

DeviceMemory simulated_memory() {
  return {.make =
              [](int rank, std::int64_t bytes) {
                return Tensor::empty({bytes}, DType::u8, simulated_device(rank));
              },
          .read =
              [](const Tensor& t, void* to) {
                const auto bytes = as_bytes(t).to_vector<std::uint8_t>();
                std::ranges::copy(bytes, static_cast<std::uint8_t*>(to));
              },
          .write =
              [](const Tensor& t, const void* from) {
                as_bytes(t).copy_from_host(
                    std::span(static_cast<const std::uint8_t*>(from), t.bytes()));
              }};
}

const char* name_of(Place place) {
  return place == Place::own ? "own memory" : place == Place::shared ? "shared" : "partly shared";
}

Arena::Arena(ProcessGroup& group, Place place, std::int64_t bytes)
    : taken_(static_cast<std::size_t>(bytes)) {
  const auto own = device_memory.make ? device_memory.make(group.rank(), bytes)
                                      : Tensor::empty({bytes}, DType::u8);
  bytes_ = place == Place::own ? own : group.shared_buffer({bytes}, DType::u8);
  if (place == Place::mixed && group.rank() == group.size() - 1) {
    bytes_ = Tensor::empty({bytes}, DType::u8);
  }
  reset();
}

void Arena::reset() {
  if (bytes_.device().type == DeviceType::host) {
    bytes_.fill(guard_byte);
  } else {
    device_memory.write(bytes_, std::vector<std::uint8_t>(taken_.size(), guard_byte).data());
  }
  taken_.assign(taken_.size(), 0);
  end_ = 0;
}

Tensor Arena::take(const Shape& shape, DType dtype) {
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t begin = end_ + guard_bytes, bytes = shape.numel() * size;
  end_ = (begin + bytes + 7) / 8 * 8;
  if (end_ + guard_bytes > bytes_.numel()) throw std::length_error("the arena is full");
  std::fill_n(taken_.begin() + begin, bytes, std::uint8_t{1});
  return Tensor::over(bytes_.storage(), bytes_.offset_bytes() + static_cast<std::size_t>(begin),
                      shape, dtype);
}

Tensor Arena::take(const Shape& shape, DType dtype, const std::vector<double>& values) {
  Tensor t = take(shape, dtype);
  set_values(t, values);
  return t;
}

bool Arena::guards_hold() const {
  const auto bytes = bytes_of(bytes_.slice(0, end_ + guard_bytes));
  for (std::size_t b = 0; b < bytes.size(); ++b) {
    if (taken_[b] == 0 && bytes[b] != guard_byte) return false;
  }
  return true;
}

bool Arena::is_untouched() const {
  const auto bytes = bytes_of(bytes_);
  return std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == guard_byte; });
}

Tensor as_bytes(const Tensor& t) {
  return Tensor::over(t.storage(), t.offset_bytes(), {static_cast<std::int64_t>(t.bytes())},
                      DType::u8);
}

std::vector<std::uint8_t> bytes_of(const Tensor& t) {
  return as_bytes(on_host(t)).to_vector<std::uint8_t>();
}

void set_values(const Tensor& t, const std::vector<double>& values) {
  with_element(t.dtype(), [&]<class T>(T) {
    const auto elements = converted<T>(values);
    if (t.device().type != DeviceType::host) return device_memory.write(t, elements.data());
    countable(t).copy_from_host(std::span<const T>(elements));
  });
}

std::vector<double> values_of(const Tensor& t) {
  return with_element(t.dtype(), [&]<class T>(T) {
    std::vector<double> values;
    for (const T element : countable(on_host(t)).to_vector<T>()) {
      values.push_back(static_cast<double>(
          static_cast<std::conditional_t<std::is_arithmetic_v<T>, T, float>>(element)));
    }
    return values;
  });
}

Tensor tensor_of(const Shape& shape, DType dtype, const std::vector<double>& values) {
  auto t = Tensor::empty(shape, dtype);
  set_values(t, values);
  return t;
}

std::vector<double> values(DType dtype, int rank, std::int64_t count, int salt) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const int value = (static_cast<int>(i) * 7 + rank * 31 + salt * 57 + 1) % 251;
    values[i] = dtype == DType::boolean ? static_cast<double>(value % 3 != 0) : value;
  }
  return values;
}

std::vector<double> of_all_ranks(DType dtype, int size, std::int64_t count) {
  return of_all_ranks(dtype, Counts(static_cast<std::size_t>(size), count), 1);
}

std::vector<double> of_all_ranks(DType dtype, const Counts& counts, std::int64_t row) {
  std::vector<double> all;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    const auto part = values(dtype, static_cast<int>(r), counts[r] * row);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

Counts uneven(int size) {
  Counts counts;
  for (int r = 0; r < size; ++r) counts.push_back(r == 1 ? 0 : 3 + 20 * r);
  return counts;
}

std::int64_t total(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

void in_every_place(const std::function<void(ProcessGroup&, Arena&)>& claim, ProcessGroup& group,
                    std::int64_t arena_bytes) {
  for (const Place place : every_place) {
    SCOPED_TRACE(testing::Message() << "tensors: " << name_of(place) << ", rank " << group.rank()
                                    << " of " << group.size());
    Arena arena(group, place, arena_bytes);
    claim(group, arena);
    EXPECT_TRUE(arena.guards_hold()) << "bytes outside of any tensor were written";
  }
}

}  // namespace lockstep::test
