#include <lockstep/tensor/state_dict.hpp>

#include <functional>

#include <lockstep/base/error.hpp>

namespace lockstep {

Placement Placement::rows(const Tensor& local, std::int64_t offset, std::int64_t global_rows) {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(local.dims()), 0);
  if (!offsets.empty()) offsets.front() = offset;
  return slab(local.shape().with_leading(global_rows), Shape(offsets));
}

Placement Placement::flat_run_of(const Placement& of, const Shape& shape, std::int64_t begin) {
  if (!of.sharded) return flat_run(shape, begin);
  Placement run = of;
  run.slab_run = SlabRun{shape, begin};
  return run;
}

namespace {

Shape with_another_leading(std::int64_t extent, const Shape& rest) {
  std::vector<std::int64_t> extents{extent};
  extents.insert(extents.end(), rest.begin(), rest.end());
  return Shape(extents);
}

}  // namespace

Shape Placement::by_parts(const Shape& shape) const {
  if (is_flat_run()) return Shape{shape.numel()};
  if (parts == 1) return shape;
  return with_another_leading(parts, shape.with_leading(shape[0] / parts));
}

Shape Placement::rectangle_offsets() const {
  return parts == 1 ? offsets : with_another_leading(0, offsets);
}

void StateDict::insert(std::string name, Tensor tensor, Placement placement) {
  if (find(name)) throw Error("state dict: the name '" + name + "' is there twice");
  places_.emplace(std::hash<std::string_view>()(name), entries_.size());
  entries_.push_back({std::move(name), std::move(tensor), placement});
}

void StateDict::insert_all(const std::string& prefix, const StateDict& other) {
  for (const auto& entry : other) insert(prefix + entry.name, entry.tensor, entry.placement);
}

const StateDict::Entry* StateDict::find(std::string_view name) const noexcept {
  const auto [first, last] = places_.equal_range(std::hash<std::string_view>()(name));
  for (auto place = first; place != last; ++place) {
    if (entries_[place->second].name == name) return &entries_[place->second];
  }
  return nullptr;
}

const Tensor& StateDict::at(std::string_view name) const& {
  if (const auto* entry = find(name)) return entry->tensor;
  std::string names;
  for (const auto& entry : entries_) names += (names.empty() ? "" : ", ") + entry.name;
  throw Error("state dict: no entry '" + std::string(name) + "'; it holds " +
              (names.empty() ? "nothing" : names));
}

std::size_t StateDict::bytes() const noexcept {
  std::size_t total = 0;
  for (const auto& entry : entries_) total += entry.tensor.bytes();
  return total;
}

void copy_state(const StateDict& source, const StateDict& target) {
  constexpr int most_named = 5;
  std::string problems;
  int found = 0;
  const auto complain = [&](const std::string& problem) {
    if (found++ < most_named) problems += (problems.empty() ? "" : "; ") + problem;
  };
  for (const auto& entry : target) {
    const auto* from = source.find(entry.name);
    if (!from) {
      complain(entry.name + " is missing");
    } else if (from->tensor.shape() != entry.tensor.shape() ||
               from->tensor.dtype() != entry.tensor.dtype()) {
      complain(entry.name + " is " + describe(from->tensor) + " where the model has " +
               describe(entry.tensor));
    }
  }
  for (const auto& entry : source) {
    if (!target.find(entry.name)) complain(entry.name + " is not in the model");
  }
  if (found > most_named) problems += "; and " + std::to_string(found - most_named) + " more";
  if (found > 0) throw Error("the state does not fit the model: " + problems);
  for (const auto& entry : target) entry.tensor.copy_from(source.at(entry.name));
}

}  // namespace lockstep
