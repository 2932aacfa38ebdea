#include <lockstep/tensor/kernels/sequence/embedding_bag.hpp>

#include <algorithm>
#include <string>

#include <lockstep/tensor/kernels/host_or_kernels.hpp>
#include <lockstep/tensor/kernels/sequence/embedding_bag_kernels.hpp>

namespace lockstep {
namespace {

using HostRow = Lanes<HostExecutionSpace>;

/// Bags as arrays, for a task.
struct BagArrays {
  HostArray index, offsets, per_sample_weights;
  BagMode mode;
  std::int64_t padding_idx;
};

const std::int64_t* integers(const HostArray& t) {
  return static_cast<const std::int64_t*>(t.data());
}

/// host(bags, arrays...) or kernels(space).
template <class Host, class Kernels, class... Tensors>
void bag_task(const Bags& bags, const Host& host, const Kernels& kernels,
              const Tensors&... tensors) {
  host_or_kernels(
      "embedding_bag",
      [host, mode = bags.mode, padding_idx = bags.padding_idx](
          const HostArray& index, const HostArray& offsets, const HostArray& factors,
          const auto&... arrays) {
        host(BagArrays{index, offsets, factors, mode, padding_idx}, arrays...);
      },
      kernels, bags.index, bags.offsets, bags.per_sample_weights, tensors...);
}

/// Calls f(bag, entry, row) for every entry that counts, in order.
template <class F>
void each_entry(const BagArrays& bags, const F& f) {
  const std::int64_t entries = bags.index.numel(), count = bags.offsets.numel();
  const std::int64_t *index = integers(bags.index), *offsets = integers(bags.offsets);
  for (std::int64_t bag = 0; bag < count; ++bag) {
    const std::int64_t end = bag + 1 < count ? offsets[bag + 1] : entries;
    for (std::int64_t entry = offsets[bag]; entry < end; ++entry) {
      if (index[entry] != bags.padding_idx) f(bag, entry, index[entry]);
    }
  }
}

/// The number of entries in a bag's mean.
std::int64_t size_of_bag(const BagArrays& bags, std::int64_t bag) {
  const std::int64_t *index = integers(bags.index), *offsets = integers(bags.offsets);
  const std::int64_t end = bag + 1 < bags.offsets.numel() ? offsets[bag + 1] : bags.index.numel();
  std::int64_t size = 0;
  for (std::int64_t entry = offsets[bag]; entry < end; ++entry) {
    size += index[entry] != bags.padding_idx;
  }
  return size;
}

/// The factor of an entry's row in its bag's sum or mean.
template <class T>
class Factors {
 public:
  explicit Factors(const BagArrays& bags) : bags_(bags) {}

  T of(std::int64_t bag, std::int64_t entry) {
    if (bags_.per_sample_weights.defined()) {
      return static_cast<const T*>(bags_.per_sample_weights.data())[entry];
    }
    if (bags_.mode == BagMode::sum) return T{1};
    if (bag != bag_) share_ = T{1} / static_cast<T>(size_of_bag(bags_, bag_ = bag));
    return share_;
  }

 private:
  const BagArrays& bags_;
  std::int64_t bag_ = -1;
  T share_{1};
};

/// For every entry, with its bag and its row: to(bag, row)[c] += factor * from(bag, row)[c].
template <class T, class To, class From>
void add_each(const BagArrays& bags, std::int64_t width, const To& to, const From& from) {
  Factors<T> factors(bags);
  each_entry(bags, [&](std::int64_t bag, std::int64_t entry, std::int64_t row) {
    const T factor = factors.of(bag, entry);
    HostRow(width).each([sum = to(bag, row), part = from(bag, row), factor](std::int64_t c) {
      sum[c] += factor * part[c];
    });
  });
}

template <class T>
void sum_bags(const BagArrays& bags, const HostArray& weight, const HostArray& y) {
  const std::int64_t width = weight.size(1);
  const T* const table = static_cast<const T*>(weight.data());
  T* const out = static_cast<T*>(y.data());
  add_each<T>(
      bags, width, [=](std::int64_t bag, std::int64_t) { return out + bag * width; },
      [=](std::int64_t, std::int64_t row) { return table + row * width; });
}

template <class T>
void take_largest(const BagArrays& bags, const HostArray& weight, const HostArray& y,
                  const HostArray& chosen) {
  const std::int64_t width = weight.size(1);
  const T* const table = static_cast<const T*>(weight.data());
  T* const out = static_cast<T*>(y.data());
  auto* const rows = static_cast<std::int64_t*>(chosen.data());
  std::fill_n(rows, chosen.numel(), std::int64_t{-1});
  each_entry(bags, [&](std::int64_t bag, std::int64_t, std::int64_t row) {
    for (std::int64_t c = 0; c < width; ++c) {
      const std::int64_t at = bag * width + c;
      const T value = table[row * width + c];
      if (rows[at] >= 0 && !(value > out[at])) continue;
      out[at] = value;
      rows[at] = row;
    }
  });
}

template <class T>
void backward_weight(const BagArrays& bags, const HostArray& grad_y, const HostArray& chosen,
                     const HostArray& grad_weight) {
  const std::int64_t width = grad_weight.size(1);
  const T* const upstream = static_cast<const T*>(grad_y.data());
  T* const grad = static_cast<T*>(grad_weight.data());
  if (bags.mode == BagMode::max) {
    for (std::int64_t i = 0; i < chosen.numel(); ++i) {
      const std::int64_t row = integers(chosen)[i];
      if (row >= 0) grad[row * width + i % width] += upstream[i];
    }
    return;
  }
  add_each<T>(
      bags, width, [=](std::int64_t, std::int64_t row) { return grad + row * width; },
      [=](std::int64_t bag, std::int64_t) { return upstream + bag * width; });
}

template <class T>
void backward_factors(const BagArrays& bags, const HostArray& grad_y, const HostArray& weight,
                      const HostArray& grad) {
  const std::int64_t width = weight.size(1);
  const T *const upstream = static_cast<const T*>(grad_y.data()), *const table =
                                                                      static_cast<const T*>(
                                                                          weight.data());
  T* const out = static_cast<T*>(grad.data());
  each_entry(bags, [&](std::int64_t bag, std::int64_t entry, std::int64_t row) {
    const T *const g = upstream + bag * width, *const value = table + row * width;
    out[entry] += HostRow(width).sum([=](std::int64_t c) { return g[c] * value[c]; });
  });
}

}  // namespace

void check_embedding_bag(const Bags& bags, const Tensor& weight) {
  const Tensor& factors = bags.per_sample_weights;
  const bool fits = bags.index.dtype() == DType::i64 && bags.index.dims() == 1 &&
                    bags.offsets.dtype() == DType::i64 && bags.offsets.dims() == 1 &&
                    weight.dims() == 2 && is_floating(weight.dtype());
  if (!fits) {
    throw ShapeError("embedding_bag of index " + describe(bags.index) + " with offsets " +
                     describe(bags.offsets) + " in weight " + describe(weight) +
                     ": it takes i64 [entries], i64 [bags] and a floating weight [rows, width]");
  }
  if (factors.defined() && (bags.mode != BagMode::sum || factors.shape() != bags.index.shape() ||
                            factors.dtype() != weight.dtype())) {
    throw ShapeError("embedding_bag: per_sample_weights " + describe(factors) +
                     " need a sum, the index's shape, " + to_string(bags.index.shape()) +
                     ", and the table's dtype");
  }
  const std::int64_t entries = bags.index.numel(), rows = weight.size(0);
  if (bags.padding_idx < -1 || bags.padding_idx >= rows) {
    throw InputError("embedding_bag: padding_idx " + std::to_string(bags.padding_idx) +
                     " is not a row of weight " + describe(weight) + "; -1 means none");
  }
  const Tensor index = bags.index.to(Device{}), offsets = bags.offsets.to(Device{});
  for (std::int64_t i = 0; i < entries; ++i) {
    const std::int64_t row = integers(HostArray(index))[i];
    if (row >= 0 && row < rows) continue;
    throw InputError("embedding_bag: index " + std::to_string(row) + ", number " +
                     std::to_string(i) + ", is outside the table's rows [0, " +
                     std::to_string(rows) + ")");
  }
  if (entries > 0 && bags.offsets.numel() == 0) {
    throw InputError("embedding_bag: " + std::to_string(entries) + " entries belong to no bag");
  }
  std::int64_t least = 0;
  for (std::int64_t b = 0; b < bags.offsets.numel(); ++b) {
    const std::int64_t offset = integers(HostArray(offsets))[b];
    if (offset < least || offset > entries || (b == 0 && offset != 0)) {
      throw InputError("embedding_bag: offset " + std::to_string(offset) + ", number " +
                       std::to_string(b) +
                       ": offsets start at 0, never decrease, and stay within " +
                       std::to_string(entries) + " entries");
    }
    least = offset;
  }
}

void embedding_bag_forward(const Bags& bags, const Tensor& weight, const Tensor& y,
                           const Tensor& chosen) {
  dispatch_floating(weight.dtype(), "embedding_bag", [&]<class T>() {
    if (bags.mode == BagMode::max) {
      bag_task(
          bags,
          [](const BagArrays& arrays, const HostArray& table, const HostArray& out,
             const HostArray& rows) {
            zero<T>(out);
            take_largest<T>(arrays, table, out, rows);
          },
          [&](const auto& space) { detail::bag_max_kernel<T>(space, bags, weight, y, chosen); },
          weight, y, chosen);
    } else {
      bag_task(
          bags,
          [](const BagArrays& arrays, const HostArray& table, const HostArray& out) {
            zero<T>(out);
            sum_bags<T>(arrays, table, out);
          },
          [&](const auto& space) { detail::bag_sum_kernel<T>(space, bags, weight, y); }, weight, y);
    }
  });
}

void embedding_bag_backward_weight(const Bags& bags, const Tensor& grad_y, const Tensor& chosen,
                                   bool accumulate, const Tensor& grad_weight) {
  if (!accumulate) grad_weight.zero();
  dispatch_floating(grad_y.dtype(), "embedding_bag", [&]<class T>() {
    bag_task(
        bags, backward_weight<T>,
        [&](const auto& space) {
          detail::bag_backward_kernel<T>(space, bags, grad_y, chosen, grad_weight);
        },
        grad_y, chosen, grad_weight);
  });
}

void embedding_bag_backward_per_sample_weights(const Bags& bags, const Tensor& grad_y,
                                               const Tensor& weight, bool accumulate,
                                               const Tensor& grad) {
  if (!accumulate) grad.zero();
  dispatch_floating(grad_y.dtype(), "embedding_bag", [&]<class T>() {
    bag_task(
        bags, backward_factors<T>,
        [&](const auto& space) {
          detail::bag_factors_kernel<T>(space, bags, grad_y, weight, grad);
        },
        grad_y, weight, grad);
  });
}

}  // namespace lockstep
