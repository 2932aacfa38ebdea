#include <lockstep/checkpoint/file/region.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/checkpoint/save/plan.hpp>

namespace lockstep {
namespace {

std::int64_t element_bytes(const DatasetEntry& entry) {
  return static_cast<std::int64_t>(size_of(entry.dtype));
}

std::int64_t product(const Shape& shape, int first, int last) {
  std::int64_t n = 1;
  for (int d = first; d < last; ++d) n *= shape[d];
  return n;
}

/// Runs of equal length at equal distances.
struct Comb {
  std::int64_t begin = 0, run = 0, stride = 0, count = 0;
};

/// Splits a region into few combs, in the order of its elements.
std::vector<Comb> combs_of(const DatasetEntry& entry, const Region& region) {
  const auto& [offsets, sizes] = region;
  const Shape& global = entry.shape;
  if (sizes.numel() == 0) return {};
  const int dims = global.dims();
  // Dimensions from `inner` on form a run; those from `outer` to `inner` repeat it.
  int inner = dims == 0 ? 0 : dims - 1;
  while (inner > 0 && sizes[inner] == global[inner]) --inner;
  int outer = inner;
  if (outer > 0) --outer;
  while (outer > 0 && sizes[outer] == global[outer]) --outer;

  std::vector<std::int64_t> bytes(static_cast<std::size_t>(dims) + 1, element_bytes(entry));
  for (int d = dims - 1; d >= 0; --d) {
    const auto at = static_cast<std::size_t>(d);
    bytes[at] = bytes[at + 1] * global[d];
  }
  const auto stride_of = [&](int d) { return bytes[static_cast<std::size_t>(d) + 1]; };
  Comb comb;
  comb.run = product(sizes, inner, dims) * element_bytes(entry);
  comb.stride = inner == 0 ? comb.run : stride_of(inner - 1);
  comb.count = product(sizes, outer, inner);
  std::int64_t first = 0;
  for (int d = 0; d < dims; ++d) first += offsets[d] * stride_of(d);

  std::vector<Comb> combs;
  const std::int64_t repeats = product(sizes, 0, outer);
  for (std::int64_t i = 0; i < repeats; ++i) {
    comb.begin = first;
    std::int64_t rest = i;
    for (int d = outer - 1; d >= 0; --d) {
      comb.begin += rest % sizes[d] * stride_of(d);
      rest /= sizes[d];
    }
    combs.push_back(comb);
  }
  return combs;
}

/// A region and its holders, by rank.
struct SharedRegion {
  Region region;
  std::vector<const HeldRegion*> holders;
};

bool comes_before(const Region& a, const Region& b) {
  const auto key = [](const Region& r) {
    std::vector<std::int64_t> k(r.offsets.begin(), r.offsets.end());
    k.insert(k.end(), r.sizes.begin(), r.sizes.end());
    return k;
  };
  return key(a) < key(b);
}

/// Each non-empty region once, in the order of the regions' first elements.
std::vector<SharedRegion> distinct(std::span<const HeldRegion> held) {
  std::vector<const HeldRegion*> all;
  for (const HeldRegion& one : held) {
    if (one.region.sizes.numel() > 0) all.push_back(&one);
  }
  std::ranges::stable_sort(all, [](const HeldRegion* a, const HeldRegion* b) {
    return comes_before(a->region, b->region);
  });
  std::vector<SharedRegion> shared;
  for (const HeldRegion* one : all) {
    if (shared.empty() || !(shared.back().region == one->region))
      shared.push_back({one->region, {}});
    shared.back().holders.push_back(one);
  }
  return shared;
}

bool overlap(const Region& a, const Region& b) {
  for (int d = 0; d < a.sizes.dims(); ++d) {
    if (a.offsets[d] >= b.offsets[d] + b.sizes[d] || b.offsets[d] >= a.offsets[d] + a.sizes[d])
      return false;
  }
  return true;
}

/// Finds two overlapping regions; sweeps along the dimension with most distinct offsets.
std::optional<std::pair<std::size_t, std::size_t>> find_overlap(
    const std::vector<SharedRegion>& held) {
  if (held.empty()) return {};
  int along = 0;
  std::size_t most = 0;
  for (int d = 0; d < held.front().region.sizes.dims(); ++d) {
    std::set<std::int64_t> begins;
    for (const auto& [region, holders] : held) begins.insert(region.offsets[d]);
    if (begins.size() > most) {
      most = begins.size();
      along = d;
    }
  }
  const auto begin_of = [&](std::size_t i) {
    return held[i].region.sizes.dims() == 0 ? 0 : held[i].region.offsets[along];
  };
  const auto end_of = [&](std::size_t i) {
    return held[i].region.sizes.dims() == 0 ? 1 : begin_of(i) + held[i].region.sizes[along];
  };
  std::vector<std::size_t> order(held.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, begin_of);
  std::vector<std::size_t> open;
  for (const std::size_t i : order) {
    std::erase_if(open, [&](std::size_t other) { return end_of(other) <= begin_of(i); });
    for (const std::size_t other : open) {
      if (overlap(held[i].region, held[other].region)) return std::pair(other, i);
    }
    open.push_back(i);
  }
  return {};
}

void expect_tiles(const DatasetEntry& entry, const std::vector<SharedRegion>& held) {
  std::int64_t covered = 0;
  for (const auto& [region, holders] : held) covered += region.sizes.numel();
  if (const auto pair = find_overlap(held)) {
    const auto [a, b] = std::minmax(held[pair->first].holders.front()->rank,
                                    held[pair->second].holders.front()->rank);
    throw CheckpointError(
        fmt::format("the parts of {} that ranks {} and {} hold overlap", entry.path, a, b));
  }
  if (covered == entry.shape.numel()) return;
  throw CheckpointError(fmt::format("the ranks' shards of {} hold {} of its {} bytes", entry.path,
                                    covered * element_bytes(entry), entry.bytes()));
}

}  // namespace

Region Region::whole(const Shape& shape) {
  const std::vector<std::int64_t> zeros(static_cast<std::size_t>(shape.dims()), 0);
  return {Shape(zeros), shape};
}

std::vector<Run> runs_of(const DatasetEntry& entry, const Region& region) {
  std::vector<Run> runs;
  std::int64_t at = 0;
  for (const auto& [begin, run, stride, count] : combs_of(entry, region)) {
    for (std::int64_t i = 0; i < count; ++i, at += run)
      runs.push_back({begin + i * stride, run, at});
  }
  return runs;
}

std::vector<Run> runs_of(const DatasetEntry& entry, std::span<const Region> regions) {
  std::vector<Run> runs;
  std::int64_t at = 0;
  for (const Region& region : regions) {
    for (const auto& [begin, bytes, in_region] : runs_of(entry, region))
      runs.push_back({begin, bytes, at + in_region});
    at += region.sizes.numel() * element_bytes(entry);
  }
  return runs;
}

std::vector<Run> runs_of(const Slab& slab) {
  std::vector<Run> runs;
  for (std::int64_t at = 0; at < slab.bytes; at += slab.run_bytes())
    runs.push_back({slab.begin + at / slab.run_bytes() * slab.stride, slab.run_bytes(), at});
  return runs;
}

std::vector<CommonRun> common_runs(std::span<const Run> first, std::span<const Run> second) {
  std::vector<CommonRun> common;
  if (first.empty()) return common;
  const auto end_of = [](const Run& run) { return run.begin + run.bytes; };
  auto b = std::ranges::upper_bound(second, first.front().begin, {}, end_of);
  for (auto a = first.begin(); a != first.end() && b != second.end();) {
    const std::int64_t begin = std::max(a->begin, b->begin);
    const std::int64_t end = std::min(end_of(*a), end_of(*b));
    if (begin < end)
      common.push_back({a->at + begin - a->begin, b->at + begin - b->begin, end - begin});
    if (end_of(*a) < end_of(*b)) {
      ++a;
    } else {
      ++b;
    }
  }
  return common;
}

std::vector<Slab> cut_slabs(const DatasetEntry& entry, const Region& region) {
  std::vector<Slab> slabs;
  std::int64_t local = 0;
  const auto add = [&](std::int64_t begin, std::int64_t bytes, std::int64_t run,
                       std::int64_t stride) {
    Slab slab;
    slab.begin = begin;
    slab.bytes = bytes;
    if (run < bytes) {
      slab.run = run;
      slab.stride = stride;
    }
    slab.local = local;
    local += bytes;
    slabs.push_back(slab);
  };
  for (const auto& [begin, run, stride, count] : combs_of(entry, region)) {
    // Takes as many runs as fit into a slab, or cuts a run into several slabs.
    const std::int64_t together = std::max<std::int64_t>(1, slab_bytes / run);
    for (std::int64_t i = 0; i < count; i += together) {
      const std::int64_t runs = std::min(together, count - i);
      const std::int64_t bytes = runs * run;
      for (std::int64_t done = 0; done < bytes; done += runs == 1 ? slab_bytes : bytes) {
        const std::int64_t length = runs == 1 ? std::min(slab_bytes, bytes - done) : bytes;
        add(begin + i * stride + done, length, runs == 1 ? length : run, stride);
      }
    }
  }
  return slabs;
}

std::vector<std::vector<RegionHolder>> holders_of(std::span<const HeldRegion> held) {
  std::vector<std::vector<RegionHolder>> all;
  for (const auto& [region, holders] : distinct(held)) {
    auto& of_region = all.emplace_back();
    for (const HeldRegion* holder : holders) of_region.push_back({holder->rank, holder->at});
  }
  return all;
}

std::vector<Slab> plan_slabs(const DatasetEntry& entry, std::span<const HeldRegion> held,
                             std::vector<std::int64_t>& loads) {
  const std::vector<SharedRegion> shared = distinct(held);
  expect_tiles(entry, shared);
  std::vector<Slab> slabs;
  std::size_t number = 0;
  for (const auto& [region, holders] : shared) {
    for (Slab& slab : cut_slabs(entry, region)) {
      slab.region = number;
      const auto load_of = [&](const HeldRegion* holder) -> std::int64_t& {
        return loads[static_cast<std::size_t>(holder->rank)];
      };
      const HeldRegion* const writer = *std::ranges::min_element(holders, {}, load_of);
      load_of(writer) += slab.bytes;
      slab.owner = writer->rank;
      slab.local += writer->at;
      slabs.push_back(slab);
    }
    ++number;
  }
  return slabs;
}

}  // namespace lockstep
