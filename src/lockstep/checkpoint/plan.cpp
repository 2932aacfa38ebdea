#include <lockstep/checkpoint/plan.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include <lockstep/base/error.hpp>
#include <lockstep/base/hash.hpp>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/comm/objects.hpp>

namespace lockstep {
namespace {

PlannedDataset plan_entry(const std::string& prefix, const StateDict::Entry& state) {
  check_name(state.name);
  if (!state.tensor.defined())
    throw Error(fmt::format("the tensor of '{}' is undefined", state.name));
  const auto& [sharded, offset, rows] = state.placement;
  PlannedDataset planned;
  planned.entry.path = prefix + state.name;
  planned.entry.dtype = state.tensor.dtype();
  planned.entry.shape = state.tensor.shape();
  planned.local = state.tensor;
  if (!sharded) return planned;
  const std::int64_t local_rows = state.tensor.dims() == 0 ? -1 : state.tensor.size(0);
  if (local_rows < 0 || offset < 0 || offset + local_rows > rows)
    throw Error(fmt::format("'{}': {} cannot be a shard, beginning at row {}, of {} rows",
                            state.name, describe(state.tensor), offset, rows));
  planned.entry.shape = state.tensor.shape().with_leading(rows);
  planned.local_begin = rows == 0 ? 0 : planned.entry.bytes() / rows * offset;
  return planned;
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

template <class T>
void append(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T extract(const std::string& bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
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
    slabs.push_back({begin + done, std::min(slab_bytes, bytes - done), owner, 0});
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
                                       const StateDict& optimizer) {
  const std::string what = "the state cannot be saved";
  std::vector<PlannedDataset> plan;
  std::vector<std::size_t> sharded;
  std::string error, global, shards;
  try {
    const auto add = [&](const std::string& prefix, const StateDict& state) {
      for (const auto& entry : state) {
        plan.push_back(plan_entry(prefix, entry));
        global += describe_global(plan.back().entry, entry.placement.sharded);
        if (!entry.placement.sharded) continue;
        sharded.push_back(plan.size() - 1);
        append(shards, plan.back().local_begin);
        append(shards, static_cast<std::int64_t>(plan.back().local.bytes()));
      }
    };
    add("/model/", model);
    add("/optimizer/", optimizer);
  } catch (const Error& e) {
    error = e.what();
  }

  std::string mine;
  append(mine, hash64(global.data(), global.size()));
  const auto all = agree(group, what, error, mine + shards);
  const auto differs = std::ranges::find_if(
      all, [&](const auto& other) { return other.compare(0, 8, all[0], 0, 8) != 0; });
  if (differs != all.end()) {  // the same on every rank, so all come here
    const auto texts = all_gather_object(group, global);
    const auto rank = static_cast<std::size_t>(differs - all.begin());
    throw CheckpointError(fmt::format("{}: ranks 0 and {} hold different tensors: {}", what, rank,
                                      first_difference(texts[0], texts[rank])));
  }

  std::vector<DatasetEntry*> replicated;
  for (std::size_t i = 0, next_shard = 0; i < plan.size(); ++i) {
    auto& entry = plan[i].entry;
    if (next_shard == sharded.size() || sharded[next_shard] != i) {
      entry.slabs = cut_slabs(0, entry.bytes());
      replicated.push_back(&entry);
      continue;
    }
    std::int64_t covered = 0;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const auto begin = extract<std::int64_t>(all[rank], 1 + 2 * next_shard);
      const auto bytes = extract<std::int64_t>(all[rank], 2 + 2 * next_shard);
      if (bytes > 0 && begin != covered)
        throw CheckpointError(fmt::format(
            "{}: rank {}'s shard of {} begins at byte {}, but the ranks before it end at byte {}",
            what, rank, entry.path, begin, covered));
      covered += bytes;
      std::ranges::move(cut_slabs(begin, bytes, static_cast<int>(rank)),
                        std::back_inserter(entry.slabs));
    }
    if (covered != entry.bytes())
      throw CheckpointError(fmt::format("{}: the ranks' shards of {} hold {} of its {} bytes", what,
                                        entry.path, covered, entry.bytes()));
    ++next_shard;
  }
  deal_replicated(replicated, group.size());
  return plan;
}

namespace {

[[noreturn]] void throw_for_all(const ProcessGroup& group, const std::string& what, int rank,
                                const std::string& error) {
  const auto where = group.size() == 1 ? "" : fmt::format("rank {} of {}: ", rank, group.size());
  throw CheckpointError(fmt::format("{}{}: {}", where, what, error));
}

}  // namespace

void agree(ProcessGroup& group, const std::string& what, const std::string& error) {
  if (const auto failure = first_failure(group, error))
    throw_for_all(group, what, failure->rank, failure->message);
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
    if (one.front() == bad) throw_for_all(group, what, rank, one.substr(1));
    one.erase(0, 1);
    ++rank;
  }
  return all;
}

}  // namespace lockstep
