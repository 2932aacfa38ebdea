#include <lockstep/train/training_part.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include <lockstep/base/error.hpp>

namespace lockstep::train {
namespace {

/// Prefix of tensors under /optimizer: no parameter's slot has two slashes.
constexpr std::string_view tensors_of_parts = "training_parts/";

template <class Value>
std::optional<Value> value_of(const std::vector<std::pair<std::string, Value>>& values,
                              const std::string& name) {
  const auto at = std::ranges::find(values, name, &std::pair<std::string, Value>::first);
  return at == values.end() ? std::nullopt : std::optional(at->second);
}

template <class Value>
void insert(std::vector<std::pair<std::string, Value>>& values, const std::string& name,
            Value value) {
  if (value_of(values, name))
    throw Error(fmt::format("a checkpoint cannot have two numbers called {}", name));
  values.emplace_back(name, value);
}

bool is_name(const std::string& name) {
  constexpr std::string_view letters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  return !name.empty() && name.find_first_not_of(letters) == std::string::npos;
}

}  // namespace

PartState::PartState(CheckpointContents& checkpoint, const std::string& part)
    : checkpoint_(checkpoint),
      prefix_(part.empty() ? "" : "part." + part + "."),
      tensor_prefix_(fmt::format("{}{}/", tensors_of_parts, part)) {}

void PartState::set_number(const std::string& name, double value) {
  insert(checkpoint_.train.sums, prefix_ + name, value);
}

void PartState::set_count(const std::string& name, std::int64_t value) {
  insert(checkpoint_.train.counts, prefix_ + name, value);
}

void PartState::set_tensor(const std::string& name, const Tensor& value) {
  checkpoint_.optimizer.insert(tensor_prefix_ + name, value);
}

std::optional<double> PartState::number(const std::string& name) const {
  return value_of(checkpoint_.train.sums, prefix_ + name);
}

std::optional<std::int64_t> PartState::count(const std::string& name) const {
  return value_of(checkpoint_.train.counts, prefix_ + name);
}

Tensor PartState::tensor(const std::string& name) const {
  const StateDict::Entry* entry = checkpoint_.optimizer.find(tensor_prefix_ + name);
  return entry ? entry->tensor : Tensor();
}

StateDict without_part_tensors(const StateDict& optimizer) {
  StateDict rest;
  for (const auto& [name, tensor, placement] : optimizer) {
    if (!name.starts_with(tensors_of_parts)) rest.insert(name, tensor, placement);
  }
  return rest;
}

void expect_names(const TrainingParts& parts) {
  std::set<std::string> names;
  for (const auto& part : parts) {
    if (!part) throw InputError("a training part is null: its factory returned none");
    const std::string name = part->name();
    if (!is_name(name)) {
      throw InputError(fmt::format(
          "\"{}\" cannot be the name of a training part: use letters, digits and underscores",
          name));
    }
    if (!names.insert(name).second) {
      throw InputError(fmt::format(
          "two training parts are called {}: checkpoints could not tell their states apart", name));
    }
  }
}

}  // namespace lockstep::train
