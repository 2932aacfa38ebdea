#include <lockstep/checkpoint/save/plan.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include <lockstep/base/error.hpp>
#include <lockstep/base/hash.hpp>
#include <lockstep/base/text_lines.hpp>
#include <lockstep/checkpoint/file/placed_regions.hpp>
#include <lockstep/checkpoint/file/region.hpp>
#include <lockstep/checkpoint/save/chunks.hpp>
#include <lockstep/comm/objects.hpp>

namespace lockstep {
namespace {

/// HDF5's index of a data set's chunks takes some KiB.
constexpr std::int64_t least_to_compress = std::int64_t{64} << 10;

/// Whether a part of shape `local` is in its slab, and the slab in the tensor.
bool fits(const Placement& placement, const Shape& local) {
  const auto& [sharded, global, offsets, parts, slab_run] = placement;
  if (slab_run) {
    const std::int64_t rest = slab_run->slab.numel() - slab_run->begin;
    if (local.dims() != 1 || slab_run->begin < 0 || local[0] > rest) return false;
  }
  const Shape& sizes = slab_run ? slab_run->slab : local;
  const Shape whole = placement.is_flat_run() ? Shape{global.numel()} : global;
  if (sizes.dims() != whole.dims() || offsets.dims() != whole.dims() || parts < 1) return false;
  if (parts > 1 && (sizes.dims() == 0 || sizes[0] % parts != 0 || whole[0] % parts != 0))
    return false;
  for (int d = 0; d < sizes.dims(); ++d) {
    const std::int64_t by = d == 0 ? parts : 1;
    if (sizes[d] > whole[d] || offsets[d] > (whole[d] - sizes[d]) / by) return false;
  }
  return true;
}

PlannedDataset plan_entry(const std::string& prefix, const StateDict::Entry& state) {
  check_name(state.name);
  if (!state.tensor.defined())
    throw Error(fmt::format("the tensor of '{}' is undefined", state.name));
  PlannedDataset planned;
  planned.entry.path = prefix + state.name;
  planned.entry.dtype = state.tensor.dtype();
  planned.entry.shape = state.tensor.shape();
  planned.local = state.tensor;
  if (!state.placement.sharded) return planned;
  if (!fits(state.placement, state.tensor.shape()))
    throw Error(fmt::format("'{}': the part {} at offset {} does not fit into a tensor of shape {}",
                            state.name, describe(state.tensor), to_string(state.placement.offsets),
                            to_string(state.placement.global)));
  planned.entry.shape = state.placement.global;
  return planned;
}

/// Description of a rank's tensors, to be compared.
struct Held {
  std::uint64_t hash = 0;  ///< hash of their names, dtypes and global shapes
  /// Of each sharded one the number of regions; of each region offsets, then sizes.
  std::vector<std::int64_t> regions;

  static auto fields(auto& self) { return std::tie(self.hash, self.regions); }
};

void append(std::vector<std::int64_t>& numbers, const Region& region) {
  for (const Shape* shape : {&region.offsets, &region.sizes})
    numbers.insert(numbers.end(), shape->begin(), shape->end());
}

/// The region at `at`; advances `at` past it.
Region extract(const std::vector<std::int64_t>& numbers, std::size_t& at, int dims) {
  const auto shape = [&] {
    const auto first = numbers.begin() + static_cast<std::ptrdiff_t>(at);
    at += static_cast<std::size_t>(dims);
    return Shape(std::vector<std::int64_t>(first, first + dims));
  };
  const Shape offsets = shape();
  return {offsets, shape()};
}

std::string describe_global(const DatasetEntry& entry, const Placement& placement) {
  std::string how = placement.sharded ? " sharded" : "";
  if (placement.parts > 1) how += fmt::format(" by {}", placement.parts);
  if (placement.is_flat_run()) how += " in flat runs";
  return fmt::format("{} {}{}{}\n", entry.path, name_of(entry.dtype), to_string(entry.shape), how);
}

}  // namespace

void check_name(const std::string& name) {
  const bool control = std::ranges::any_of(name, [](unsigned char c) { return c < 0x20; });
  std::istringstream parts(name + "/");
  bool legal = !name.empty() && !name.ends_with('/') && !control;
  for (std::string part; std::getline(parts, part, '/');)
    legal = legal && !part.empty() && part != "." && part != "..";
  if (!legal)
    throw Error(
        fmt::format("'{}' cannot be a name in a checkpoint: the parts between '/' must not be "
                    "empty, '.' or '..', or hold control characters",
                    name));
}

std::vector<Slab> cut_slabs(std::int64_t begin, std::int64_t bytes, int owner) {
  std::vector<Slab> slabs;
  for (std::int64_t done = 0; done < bytes; done += slab_bytes)
    slabs.push_back({.begin = begin + done,
                     .bytes = std::min(slab_bytes, bytes - done),
                     .owner = owner,
                     .local = done});
  return slabs;
}

void deal_replicated(std::vector<DatasetEntry*> datasets, int ranks) {
  std::int64_t total = 0;
  for (const auto* d : datasets) total += d->bytes();
  const std::int64_t share = std::max<std::int64_t>(1, total / ranks + (total % ranks != 0));
  std::int64_t run = 0;
  for (auto* d : datasets) {
    for (auto& slab : d->slabs) {
      const std::int64_t middle = run + slab.bytes / 2;
      slab.owner = static_cast<int>(std::min<std::int64_t>(middle / share, ranks - 1));
      run += slab.bytes;
    }
  }
}

std::optional<std::int64_t> PlannedDataset::place_on(int rank, const Slab& slab) const {
  if (holders.empty() || rank == slab.owner) return slab.local;
  const auto& of_region = holders[slab.region];
  const auto find = [&](int wanted) {
    const auto at = std::ranges::lower_bound(of_region, wanted, {}, &RegionHolder::rank);
    return at != of_region.end() && at->rank == wanted ? at : of_region.end();
  };
  const auto own = find(rank);
  if (own == of_region.end()) return std::nullopt;
  return slab.local - find(slab.owner)->at + own->at;
}

std::vector<PlannedDataset> plan_state(ProcessGroup& group, const StateDict& model,
                                       const StateDict& optimizer, Compression compression) {
  const std::string what = "the state cannot be saved";
  std::vector<PlannedDataset> plan;
  std::vector<Placement> placements;
  std::string global;
  const auto describe_own = [&] {
    Held mine;
    const auto add = [&](const std::string& prefix, const StateDict& state) {
      for (const auto& entry : state) {
        plan.push_back(plan_entry(prefix, entry));
        placements.push_back(entry.placement);
        global += describe_global(plan.back().entry, entry.placement);
        if (!entry.placement.sharded) continue;
        const auto regions = placed_regions(entry.placement, entry.tensor.shape());
        mine.regions.push_back(static_cast<std::int64_t>(regions.size()));
        for (const Region& region : regions) append(mine.regions, region);
      }
    };
    add("/model/", model);
    add("/optimizer/", optimizer);
    mine.hash = hash64(global.data(), global.size());
    return mine;
  };
  const std::vector<Held> all = agree(group, describe_own, refuse_with(what));
  const auto differs =
      std::ranges::find_if(all, [&](const Held& other) { return other.hash != all[0].hash; });
  if (differs != all.end()) {  // the same on every rank, so all ranks take this branch
    const auto texts = all_gather_object(group, global);
    const auto rank = static_cast<std::size_t>(differs - all.begin());
    const auto [on_zero, there] = first_differing_lines(texts[0], texts[rank]);
    throw Agreed<CheckpointError>(
        fmt::format("{}: ranks 0 and {} hold different tensors: '{}' against '{}'", what, rank,
                    on_zero, there));
  }

  std::vector<DatasetEntry*> replicated;
  std::vector<std::int64_t> loads(all.size(), 0);
  std::vector<std::size_t> read(all.size(), 0);  // of each rank's regions
  for (std::size_t i = 0; i < plan.size(); ++i) {
    auto& entry = plan[i].entry;
    if (!placements[i].sharded) {
      const bool compressed =
          compression != Compression::none && entry.bytes() >= least_to_compress;
      entry.slabs = compressed ? cut_chunks(entry) : cut_slabs(0, entry.bytes());
      replicated.push_back(&entry);
      continue;
    }
    DatasetEntry by_parts = entry;  // the same bytes
    by_parts.shape = placements[i].by_parts(entry.shape);
    std::vector<HeldRegion> held;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      std::int64_t at = 0;
      for (std::int64_t count = all[rank].regions[read[rank]++]; count > 0; --count) {
        const Region region = extract(all[rank].regions, read[rank], by_parts.shape.dims());
        held.push_back({static_cast<int>(rank), region, at});
        at += region.sizes.numel() * static_cast<std::int64_t>(size_of(entry.dtype));
      }
    }
    try {
      entry.slabs = plan_slabs(by_parts, held, loads);
      plan[i].holders = holders_of(held);
    } catch (const CheckpointError& e) {
      throw Agreed<CheckpointError>(fmt::format("{}: {}", what, e.what()));
    }
  }
  deal_replicated(replicated, group.size());
  return plan;
}

AgreeOptions refuse_with(const std::string& what) {
  return {.refuse = [what](const AgreedFailure& failure) {
    const auto where =
        failure.everywhere ? "" : fmt::format("rank {} of {}: ", failure.rank, failure.ranks);
    throw Agreed<CheckpointError>(failure, fmt::format("{}{}: {}", where, what, failure.message));
  }};
}

}  // namespace lockstep
