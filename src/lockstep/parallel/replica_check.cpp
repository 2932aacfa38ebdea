#include <lockstep/parallel/replica_check.hpp>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include <fmt/format.h>

#include <lockstep/base/expect_given.hpp>
#include <lockstep/base/hash.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/comm/objects.hpp>

namespace lockstep {
namespace {

std::uint64_t hash_of(const Tensor& tensor) {
  if (tensor.device() == Device{}) return hash64(tensor.data(), tensor.bytes());
  const Tensor host = Tensor::empty(tensor.shape(), tensor.dtype());
  host.copy_from(tensor);
  return hash64(host.data(), host.bytes());
}

/// The value that more than half of them have.
std::optional<std::uint64_t> majority(std::span<const std::uint64_t> values) {
  for (const std::uint64_t value : values) {
    if (2 * std::ranges::count(values, value) > std::ssize(values)) return value;
  }
  return std::nullopt;
}

std::string name_of(int rank, const std::vector<std::string>& hosts) {
  return fmt::format("{} ({})", rank, hosts[static_cast<std::size_t>(rank)]);
}

/// "rank 1 (a)", "ranks 0 (a), 1 (a) and 3 (b)"
std::string named(const std::vector<int>& ranks, const std::vector<std::string>& hosts) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const char* before = i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ";
    text += before + name_of(ranks[i], hosts);
  }
  return text;
}

std::string sentence(const ReplicaDifference& found, std::size_t tensors,
                     const std::vector<std::string>& hosts) {
  const std::string where = found.differ == 1
                                ? fmt::format("in {}, of {} tensors", found.first, tensors)
                                : fmt::format("in {} of {} tensors, the first of them {}",
                                              found.differ, tensors, found.first);
  const std::string who = named(found.ranks, hosts);
  if (!found.has_majority) {
    return fmt::format("{} have different bits {}; there is no majority to show which are right",
                       who, where);
  }
  const std::size_t others = hosts.size() - found.ranks.size();
  return fmt::format("{} {} other bits than the other {} rank{} {}", who,
                     found.ranks.size() == 1 ? "has" : "have", others, others == 1 ? "" : "s",
                     where);
}

}  // namespace

ReplicaCheck::ReplicaCheck(std::shared_ptr<ProcessGroup> group, StateDict state)
    : group_(expect_given("ReplicaCheck", "the process group", std::move(group))),
      state_(std::move(state)),
      hashes_(state_.size()),
      digest_(Tensor::empty({1}, DType::i64)),
      digests_(Tensor::empty({group_->size(), 1}, DType::i64)) {}

std::optional<ReplicaDifference> ReplicaCheck::compare() {
  std::ranges::transform(state_, hashes_.begin(),
                         [](const StateDict::Entry& entry) { return hash_of(entry.tensor); });
  if (all_equal()) return std::nullopt;
  return difference();
}

bool ReplicaCheck::all_equal() {
  const std::uint64_t digest = hash64(hashes_.data(), hashes_.size() * sizeof(std::uint64_t));
  std::memcpy(digest_.data(), &digest, sizeof digest);
  group_->all_gather(digest_, digests_).wait();
  const std::span all(static_cast<const std::int64_t*>(digests_.data()),
                      static_cast<std::size_t>(group_->size()));
  return std::ranges::all_of(all, [&](std::int64_t other) { return other == all.front(); });
}

ReplicaDifference ReplicaCheck::difference() const {
  const auto ranks = static_cast<std::size_t>(group_->size());
  const std::vector<std::int64_t> mine(hashes_.begin(), hashes_.end());
  const Tensor gathered = Tensor::empty({group_->size(), std::ssize(mine)}, DType::i64);
  group_->all_gather(Tensor::from(mine, {std::ssize(mine)}), gathered).wait();
  const std::vector<std::string> hosts = all_gather_object(*group_, host_name());

  const auto all = gathered.to_vector<std::int64_t>();
  ReplicaDifference found;
  std::vector<bool> deviates(ranks, false);
  std::vector<std::uint64_t> copies(ranks);
  auto entry = state_.begin();
  for (std::size_t t = 0; t < hashes_.size(); ++t, ++entry) {
    for (std::size_t r = 0; r < ranks; ++r) {
      copies[r] = static_cast<std::uint64_t>(all[r * hashes_.size() + t]);
    }
    const auto usual = majority(copies);
    if (usual && std::ranges::count(copies, *usual) == std::ssize(copies)) continue;
    if (found.differ++ == 0) found.first = entry->name;
    found.has_majority = found.has_majority && usual.has_value();
    for (std::size_t r = 0; r < ranks; ++r) {
      if (!usual || copies[r] != *usual) deviates[r] = true;
    }
  }
  for (std::size_t r = 0; r < ranks; ++r) {
    if (deviates[r] || !found.has_majority) found.ranks.push_back(static_cast<int>(r));
  }
  found.text = sentence(found, hashes_.size(), hosts);
  return found;
}

}  // namespace lockstep
