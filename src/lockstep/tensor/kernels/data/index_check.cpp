#include <lockstep/tensor/kernels/data/index_check.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <mutex>
#include <span>
#include <variant>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>

namespace lockstep {
namespace {

constexpr std::int64_t none_wrong = -1;

using AnyCheck = std::variant<IndexCheck, RangeCheck>;

/// `bits`: the wrong index, or the bits of the wrong number as a double.
std::string sentence_of(const AnyCheck& any, std::int64_t i, std::int64_t bits) {
  if (const auto* check = std::get_if<IndexCheck>(&any)) return check->sentence(*check, i, bits);
  return std::get<RangeCheck>(any).sentence(i, std::bit_cast<double>(bits));
}

/// The checks made on one device, one entry a kind. `found` has a row for every kind: the position
/// of the first wrong element, or none_wrong, and its bits.
struct DeviceChecks {
  static constexpr std::int64_t most = 256;

  std::mutex mutex;
  std::vector<AnyCheck> kinds;
  Tensor found;  // i64 [most, 2]
  bool is_news = false;

  static DeviceChecks& of(Device device) {
    static auto& all = *new std::array<DeviceChecks, device_slots>;  // they may outlive main()
    return all[slot_of(device)];
  }

  void forget(Device device) {
    if (!found.defined()) found = Tensor::empty({most, 2}, DType::i64, device);
    found.fill(static_cast<double>(none_wrong));
    current_stream(device).synchronize();  // kernels on other streams write to it too
    kinds.clear();
    is_news = false;
  }

  /// The row of this kind of check in `found`; -1 if there is no room.
  [[nodiscard]] std::int64_t place_of(const AnyCheck& check) {
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      if (kinds[k] == check) return static_cast<std::int64_t>(k);
    }
    if (std::ssize(kinds) == most) return -1;
    kinds.push_back(check);
    return std::ssize(kinds) - 1;
  }

  /// i64 [1, 2], the kernel's result for this check.
  [[nodiscard]] Tensor room_for(const AnyCheck& check, Device device) {
    if (!found.defined()) forget(device);
    std::int64_t place = place_of(check);
    if (place < 0) {
      expect_nothing(device);
      forget(device);
      place = place_of(check);
    }
    is_news = true;
    return found.slice(place, place + 1);
  }

  void expect_nothing(Device device) {
    if (!is_news) return;
    const Tensor here = found.to(Device{});
    const auto* const all = static_cast<const std::int64_t*>(here.data());
    is_news = false;
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      if (all[2 * k] == none_wrong) continue;
      const std::string sentence = sentence_of(kinds[k], all[2 * k], all[2 * k + 1]);
      forget(device);
      throw InputError(sentence);
    }
  }
};

template <class Space>
void check_kernel(const Space& space, const IndexCheck& check, const Tensor& index,
                  std::int64_t instead, const Tensor& found, const Tensor& right) {
  const auto in = flat_view<Space, const std::int64_t>(index);
  const auto out = flat_view<Space, std::int64_t>(right),
             first = flat_view<Space, std::int64_t>(found);
  const std::int64_t n = index.numel(), count = check.count, ignored = check.ignored;
  for_each_row(
      "lockstep::check_indices", space, 1, n,
      KOKKOS_LAMBDA(std::int64_t, const Lanes<Space>& lanes) {
        const auto is_right = [&](std::int64_t i) {
          return (in(i) >= 0 && in(i) < count) || in(i) == ignored;
        };
        const std::int64_t wrong =
            -lanes.max(-n, [&](std::int64_t i) { return is_right(i) ? -n : -i; });
        lanes.write(std::array{out.data()}, false,
                    [&](auto, std::int64_t i) { return is_right(i) ? in(i) : instead; });
        lanes.once([&] {
          if (wrong == n || first(0) != none_wrong) return;
          first(0) = wrong;
          first(1) = in(wrong);
        });
      });
}

template <class T, class Space>
void check_range_kernel(const Space& space, const RangeCheck& check, const Tensor& x,
                        const Tensor& found) {
  const auto in = flat_view<Space, const T>(x);
  const auto first = flat_view<Space, std::int64_t>(found);
  const auto bits = flat_view<Space, double>(
      Tensor::over(found.storage(), found.offset_bytes(), found.shape(), DType::f64));
  const std::int64_t n = x.numel();
  const double least = check.least, most = check.most;
  for_each_row(
      "lockstep::check_range", space, 1, n, KOKKOS_LAMBDA(std::int64_t, const Lanes<Space>& lanes) {
        const std::int64_t wrong = -lanes.max(-n, [&](std::int64_t i) {
          const double value = in(i);
          return value < least || value > most ? -i : -n;
        });
        lanes.once([&] {
          if (wrong == n || first(0) != none_wrong) return;
          first(0) = wrong;
          bits(1) = in(wrong);
        });
      });
}

template <class T>
void expect_range_on_host(const RangeCheck& check, const Tensor& x) {
  const std::span<const T> all(static_cast<const T*>(x.data()),
                               static_cast<std::size_t>(x.numel()));
  const auto least = static_cast<T>(check.least), most = static_cast<T>(check.most);
  const auto is_wrong = [&](T value) { return value < least || value > most; };
  if (std::ranges::count_if(all, is_wrong) == 0) return;  // a loop that vectorises, unlike a search
  const auto wrong = std::ranges::find_if(all, is_wrong);
  throw InputError(check.sentence(wrong - all.begin(), static_cast<double>(*wrong)));
}

void expect_right_on_host(const IndexCheck& check, const Tensor& index) {
  const auto in = flat_view<HostExecutionSpace, const std::int64_t>(index);
  for (std::int64_t i = 0; i < index.numel(); ++i) {
    if ((in(i) >= 0 && in(i) < check.count) || in(i) == check.ignored) continue;
    throw InputError(check.sentence(check, i, in(i)));
  }
}

}  // namespace

Tensor right_indices(const IndexCheck& check, const Tensor& index, std::int64_t instead) {
  const Device device = index.device();
  if (device.type == DeviceType::host) {
    expect_right_on_host(check, index);
    return index;
  }
  if (check.count == 0) {  // no valid index could replace a wrong one
    expect_right_on_host(check, index.to(Device{}));
    return index;
  }
  Tensor right = Tensor::empty_like(index);
  DeviceChecks& checks = DeviceChecks::of(device);
  const std::lock_guard lock(checks.mutex);
  const Tensor found = checks.room_for(check, device);
  dispatch(current_stream(device),
           [&](const auto& space) { check_kernel(space, check, index, instead, found, right); });
  return right;
}

void expect_in_range(const RangeCheck& check, const Tensor& x) {
  const Device device = x.device();
  dispatch_floating(x.dtype(), "a check of numbers", [&]<class T>() {
    if (device.type == DeviceType::host) return expect_range_on_host<T>(check, x);
    DeviceChecks& checks = DeviceChecks::of(device);
    const std::lock_guard lock(checks.mutex);
    const Tensor found = checks.room_for(check, device);
    dispatch(current_stream(device),
             [&](const auto& space) { check_range_kernel<T>(space, check, x, found); });
  });
}

void expect_right_indices(Device device) {
  if (device.type == DeviceType::host) return;
  DeviceChecks& checks = DeviceChecks::of(device);
  const std::lock_guard lock(checks.mutex);
  checks.expect_nothing(device);
}

}  // namespace lockstep
