#include <lockstep/checkpoint/plan.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include <lockstep/base/error.hpp>
#include <lockstep/base/hash.hpp>
#include <lockstep/checkpoint/chunks.hpp>
#include <lockstep/checkpoint/region.hpp>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/comm/objects.hpp>

namespace lockstep {
namespace {

/// HDF5's index of a data set's chunks takes some KiB.
constexpr std::int64_t least_to_compress = std::int64_t{64} << 10;

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
  const auto& [sharded, global, offsets] = state.placement;
  const Shape& sizes = state.tensor.shape();
  bool fits = sizes.dims() == global.dims() && offsets.dims() == global.dims();
  for (int d = 0; fits && d < sizes.dims(); ++d)
    fits = sizes[d] <= global[d] && offsets[d] <= global[d] - sizes[d];
  if (!fits)
    throw Error(fmt::format("'{}': {} cannot be a part, beginning at {}, of a tensor of shape {}",
                            state.name, describe(state.tensor), to_string(offsets),
                            to_string(global)));
  planned.entry.shape = global;
  return planned;
}

/// A region as numbers: offsets, then sizes.
void append(std::string& bytes, const Region& region) {
  for (const Shape* shape : {&region.offsets, &region.sizes})
    bytes.append(reinterpret_cast<const char*>(shape->begin()),
                 static_cast<std::size_t>(shape->dims()) * sizeof(std::int64_t));
}

/// The region at `at`, which moves on behind it.
Region extract(const std::string& bytes, std::size_t& at, int dims) {
  const auto shape = [&] {
    std::vector<std::int64_t> extents(static_cast<std::size_t>(dims));
    std::memcpy(extents.data(), bytes.data() + at, extents.size() * sizeof extents[0]);
    at += extents.size() * sizeof extents[0];
    return Shape(extents);
  };
  const Shape offsets = shape();
  return {offsets, shape()};
}

std::string describe_global(const DatasetEntry& entry, bool sharded) {
  return fmt::format("{} {}{}{}\n", entry.path, name_of(entry.dtype), to_string(entry.shape),
                     sharded ? " sharded" : "");
}

/// The first line in which two texts differ, as "a" against "b".
std::string first_difference(const std::string& a, const std::string& b) {
  std::istringstream of_a(a), of_b(b);
  std::string line_a, line_b;
  do {
    if (!std::getline(of_a, line_a)) line_a = "nothing more";
    if (!std::getline(of_b, line_b)) line_b = "nothing more";
  } while (line_a == line_b);
  return fmt::format("'{}' against '{}'", line_a, line_b);
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
        fmt::format("'{}' cannot be a name in a checkpoint: its parts between '/' must not "
                    "be empty, '.' or '..', nor hold control characters",
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

std::vector<PlannedDataset> plan_state(ProcessGroup& group, const StateDict& model,
                                       const StateDict& optimizer, Compression compression) {
  const std::string what = "the state cannot be saved";
  std::vector<PlannedDataset> plan;
  std::vector<bool> sharded;
  std::string error, global, regions;
  try {
    const auto add = [&](const std::string& prefix, const StateDict& state) {
      for (const auto& entry : state) {
        plan.push_back(plan_entry(prefix, entry));
        sharded.push_back(entry.placement.sharded);
        global += describe_global(plan.back().entry, sharded.back());
        if (sharded.back()) append(regions, {entry.placement.offsets, entry.tensor.shape()});
      }
    };
    add("/model/", model);
    add("/optimizer/", optimizer);
  } catch (const Error& e) {
    error = e.what();
  }

  const std::string fingerprint = to_hex(hash64(global.data(), global.size()));
  const auto all = agree(group, what, error, fingerprint + regions);
  const auto differs = std::ranges::find_if(all, [&](const auto& other) {
    return !other.starts_with(all[0].substr(0, fingerprint.size()));
  });
  if (differs != all.end()) {  // the same on every rank, so all come here
    const auto texts = all_gather_object(group, global);
    const auto rank = static_cast<std::size_t>(differs - all.begin());
    throw CheckpointError(fmt::format("{}: ranks 0 and {} hold different tensors: {}", what, rank,
                                      first_difference(texts[0], texts[rank])));
  }

  std::vector<DatasetEntry*> replicated;
  std::vector<std::int64_t> loads(all.size(), 0);
  std::vector<Region> held(all.size());
  std::size_t next = fingerprint.size();
  for (std::size_t i = 0; i < plan.size(); ++i) {
    auto& entry = plan[i].entry;
    if (!sharded[i]) {
      const bool compressed =
          compression != Compression::none && entry.bytes() >= least_to_compress;
      entry.slabs = compressed ? cut_chunks(entry) : cut_slabs(0, entry.bytes());
      replicated.push_back(&entry);
      continue;
    }
    std::size_t behind = next;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      behind = next;
      held[rank] = extract(all[rank], behind, entry.shape.dims());
    }
    next = behind;
    try {
      entry.slabs = plan_slabs(entry, held, loads);
    } catch (const CheckpointError& e) {
      throw CheckpointError(fmt::format("{}: {}", what, e.what()));
    }
  }
  deal_replicated(replicated, group.size());
  return plan;
}

namespace {

/// `rank`: whose error it is; -1: everybody's.
[[noreturn]] void throw_for_all(const ProcessGroup& group, const std::string& what, int rank,
                                const std::string& error) {
  const auto where = rank < 0 ? "" : fmt::format("rank {} of {}: ", rank, group.size());
  throw CheckpointError(fmt::format("{}{}: {}", where, what, error));
}

}  // namespace

void agree(ProcessGroup& group, const std::string& what, const std::string& error) {
  if (const auto failure = first_failure(group, error))
    throw_for_all(group, what, failure->everywhere ? -1 : failure->rank, failure->message);
}

std::vector<std::string> agree(ProcessGroup& group, const std::string& what,
                               const std::string& error, const std::string& payload) {
  return agree(group, what, error, payload, [](Work& work) { work.wait(); });
}

std::vector<std::string> agree(ProcessGroup& group, const std::string& what,
                               const std::string& error, const std::string& payload,
                               const std::function<void(Work&)>& wait) {
  constexpr char good = '+', bad = '-';
  auto all = all_gather_object(group, error.empty() ? good + payload : bad + error, wait);
  int rank = 0;
  for (auto& one : all) {
    if (one.front() == bad)
      throw_for_all(group, what, group.size() == 1 ? -1 : rank, one.substr(1));
    one.erase(0, 1);
    ++rank;
  }
  return all;
}

}  // namespace lockstep
