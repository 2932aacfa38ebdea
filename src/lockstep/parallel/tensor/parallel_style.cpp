#include <lockstep/parallel/tensor/parallel_style.hpp>

#include <utility>
#include <vector>

#include <fmt/format.h>

#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/layers/attention.hpp>
#include <lockstep/nn/layers/dropout.hpp>
#include <lockstep/nn/layers/embedding.hpp>
#include <lockstep/nn/layers/linear.hpp>
#include <lockstep/nn/layers/norm.hpp>
#include <lockstep/nn/layers/transformer.hpp>
#include <lockstep/nn/models/gpt.hpp>
#include <lockstep/parallel/pipeline/gpt_stages.hpp>
#include <lockstep/parallel/tensor/partitions.hpp>

namespace lockstep {
namespace {

Slice run_of(std::int64_t units, int ranks, int rank) {
  const std::int64_t first = units * rank / ranks, end = units * (rank + 1) / ranks;
  return {first, end - first};
}

/// Units of `extent` features, of which `units` is the number; 0: each feature.
std::int64_t units_of(const ParallelPlace& place, const char* what, std::int64_t extent,
                      std::int64_t units, std::int64_t parts) {
  if (parts < 1 || units < 0 || extent % parts != 0 ||
      (units > 0 && (extent / parts) % units != 0)) {
    throw InputError(fmt::format("'{}' has {} {}, which are not {} parts of {} equal units",
                                 place.name(), extent, what, parts, units));
  }
  return units > 0 ? units : extent / parts;
}

std::string has(const ParallelPlace& place, std::int64_t count, const char* what) {
  return fmt::format("'{}' has {} {}", place.name(), count, what);
}

template <class P, class... Args>
void give(const ParallelPlace& place, Args&&... args) {
  place.module().set_partition(std::make_shared<P>(place.group(), std::forward<Args>(args)...));
}

}  // namespace

UnitCut cut_units(const std::string& what, std::int64_t units, int ranks, int rank,
                  bool replicate) {
  if (units >= ranks) return {run_of(units, ranks, rank), 1};
  if (replicate && units > 0 && ranks % units == 0) {
    const int holders = ranks / static_cast<int>(units);
    return {{rank / holders, 1}, holders};
  }
  throw InputError(fmt::format(
      "{}, fewer than the {} ranks that share them out{}. Use a group of at most {} ranks.", what,
      ranks, replicate ? ", and no divisor of these" : "", units));
}

void ParallelPlace::refuse(const char* style, const char* kinds) const {
  throw InputError(
      fmt::format("{} is for {}; '{}' is another module. Correct the plan.", style, kinds, name_));
}

ParallelPlace ParallelPlace::child(const std::string& name) const {
  for (const auto& [child, module] : module_.children()) {
    if (child == name) return {name_ + "." + name, *module, group_, slabs_};
  }
  throw Error(fmt::format("'{}' has no part '{}'", name_, name));
}

void ParallelPlace::keep(std::string_view name, const Variable& parameter, int dim,
                         const Slice& slice, std::int64_t parts) const {
  const NoGradGuard no_grad;
  const auto before = slabs_.find(parameter.record());
  const Shape& shape = before == slabs_.end() ? parameter.shape() : before->second.global;
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(shape.dims()), 0);
  offsets[static_cast<std::size_t>(dim)] = slice.first;
  Placement placement = Placement::slab(shape, Shape(offsets));
  placement.parts = parts;
  if (before != slabs_.end()) {
    if (!(before->second == placement)) {
      throw InputError(fmt::format(
          "'{}' of '{}' is tied to a parameter of which ranks hold another part. Correct the plan.",
          name, name_));
    }
    return module_.keep_slab(name, parameter.data(), placement);
  }
  const DType dtype = parameter.data().dtype();
  const Variable whole(is_half(dtype) ? parameter.data().to(DType::f32) : parameter.data());
  const std::int64_t step = shape[dim] / parts;
  std::vector<Variable> slabs;
  for (std::int64_t part = 0; part < parts; ++part)
    slabs.push_back(narrow(whole, dim, part * step + slice.first, slice.count));
  module_.keep_slab(name, concat(slabs, dim).data().to(dtype), placement);
  slabs_.emplace(parameter.record(), placement);
}

void ColwiseParallel::apply(const ParallelPlace& place) const {
  const auto* const linear = place.as<nn::Linear>();
  if (!linear) place.refuse("ColwiseParallel", "Linear");
  const auto& [units, parts, replicate, gather_output, sequence] = options_;
  const std::int64_t outputs = linear->weight().shape()[0];
  const std::int64_t count = units_of(place, "outputs", outputs, units, parts);
  const std::int64_t width = outputs / (parts * count);
  ProcessGroup& group = *place.group();
  const UnitCut cut = cut_units(has(place, count, units > 0 ? "units of outputs" : "outputs"),
                                count, group.size(), group.rank(), replicate);
  if (gather_output && (parts > 1 || cut.holders > 1)) {
    throw InputError(fmt::format(
        "'{}': an output of several parts, or with replicated units, cannot be gathered",
        place.name()));
  }
  const Slice features{cut.units.first * width, cut.units.count * width};
  place.keep("weight", linear->weight(), 0, features, parts);
  if (linear->bias().defined()) place.keep("bias", linear->bias(), 0, features, parts);
  GroupPtr holders = cut.holders > 1 ? group.new_subgroups(cut.holders) : nullptr;
  give<ColumnPartition>(place, sequence, std::move(holders), gather_output ? features.first : -1,
                        outputs);
}

void RowwiseParallel::apply(const ParallelPlace& place) const {
  ProcessGroup& group = *place.group();
  if (const auto* const embedding = place.as<nn::Embedding>()) {
    const std::int64_t rows = embedding->weight().shape()[0];
    const Slice mine = cut_units(has(place, rows, "rows"), rows, group.size(), group.rank()).units;
    place.keep("weight", embedding->weight(), 0, mine);
    return give<VocabularyPartition>(place, ClassSlab{mine.first, mine.count, rows});
  }
  const auto* const linear = place.as<nn::Linear>();
  if (!linear) place.refuse("RowwiseParallel", "Linear and Embedding");
  const std::int64_t inputs = linear->weight().shape()[1];
  const std::int64_t count = units_of(place, "inputs", inputs, options_.units, 1);
  const std::int64_t width = inputs / count;
  const UnitCut cut =
      cut_units(has(place, count, options_.units > 0 ? "units of inputs" : "inputs"), count,
                group.size(), group.rank());
  const Slice features{cut.units.first * width, cut.units.count * width};
  place.keep("weight", linear->weight(), 1, features);
  give<RowPartition>(place, options_.sequence, options_.split_input, features);
}

void HeadParallel::apply(const ParallelPlace& place) const {
  const auto* const attention = place.as<nn::MultiheadAttention>();
  if (!attention) place.refuse("HeadParallel", "MultiheadAttention");
  const std::int64_t heads = attention->num_heads();
  ProcessGroup& group = *place.group();
  const Slice mine = cut_units(has(place, heads, "heads"), heads, group.size(), group.rank()).units;
  const std::int64_t width = attention->in_proj_bias().shape()[0] / (3 * heads);
  const Slice features{mine.first * width, mine.count * width};
  place.keep("in_proj_weight", attention->in_proj_weight(), 0, features, 3);
  place.keep("in_proj_bias", attention->in_proj_bias(), 0, features, 3);
  give<ColumnPartition>(place, sequence_, nullptr, -1, 0);
  const ParallelPlace out = place.child("out_proj");
  RowwiseParallel({.units = heads, .split_input = false, .sequence = sequence_}).apply(out);
}

void SequenceParallel::apply(const ParallelPlace& place) const {
  if (place.as<nn::LayerNorm>() || place.as<nn::RMSNorm>())
    return give<SequenceNormPartition>(place);
  if (nn::drops_elements(place.module())) return give<DropoutPartition>(place, 1, Slice{});
  place.refuse("SequenceParallel", "LayerNorm, RMSNorm and Dropout");
}

void DropoutParallel::apply(const ParallelPlace& place) const {
  if (!nn::drops_elements(place.module())) place.refuse("DropoutParallel", "Dropout");
  ProcessGroup& group = *place.group();
  const Slice mine =
      cut_units(has(place, features_, "features"), features_, group.size(), group.rank()).units;
  give<DropoutPartition>(place, -1, mine, features_);
}

void SequenceRegion::apply(const ParallelPlace& place) const {
  if (!place.as<nn::TransformerEncoder>()) place.refuse("SequenceRegion", "TransformerEncoder");
  give<SequenceRegionPartition>(place);
}

void GptParallel::apply(const ParallelPlace& place) const {
  const auto* const gpt = place.as<nn::Gpt>();
  const auto* const stage = place.as<GptStage>();
  if (!gpt && !stage) place.refuse("GptParallel", "Gpt and GptStage");
  const std::int64_t rows = (gpt ? gpt->options() : stage->options()).vocabulary;
  ProcessGroup& group = *place.group();
  const Slice mine = cut_units(has(place, rows, "tokens"), rows, group.size(), group.rank()).units;
  give<GptPartition>(place, sequence_, ClassSlab{mine.first, mine.count, rows});
}

}  // namespace lockstep
