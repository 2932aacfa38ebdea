#include <lockstep/parallel/sharded/sharded_memory.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

#include <lockstep/parallel/sharded/shard_layout.hpp>
#include <lockstep/parallel/sharded/unit_modules.hpp>

namespace lockstep {

ShardedMemory sharded_memory(const nn::Module& model, int ranks, const FullyShardOptions& options,
                             int slots) {
  ShardedMemory memory;
  std::size_t most_values = 0, most_gradients = 0;  // of a unit that is not the root
  const auto units = unit_modules(model, options.units);
  for (const UnitModule& unit : units) {
    const bool is_root = unit.module == &model;
    for (const auto& parameters : unit.runs) {
      const Variable& first = parameters.front().variable;
      const DType dtype = first.data().dtype(), full = options.param_dtype.value_or(dtype);
      const bool is_wide = is_half(full) && options.reduce_dtype == DType::f32;
      std::vector<std::int64_t> counts;
      for (const auto& parameter : parameters) counts.push_back(parameter.variable.data().numel());
      const ShardLayout layout(counts, ranks, ShardLayout::alignment_of(dtype));
      const auto run = static_cast<std::size_t>(layout.elements_of_run());
      const auto all = static_cast<std::size_t>(layout.elements());
      memory.values += run * (size_of(dtype) + (full == dtype ? 0 : size_of(full)));
      const std::size_t values = all * size_of(full);
      const std::size_t gradients = all * size_of(is_wide ? DType::f32 : full);
      if (is_root || !options.reshard_after_forward) memory.gathered += values;
      if (!is_root) most_values = std::max(most_values, values);
      if (!first.requires_grad()) continue;
      memory.gradients += run * size_of(dtype);
      memory.optimizer += run * size_of(dtype) * static_cast<std::size_t>(slots);
      if (is_root) memory.whole_gradients += gradients;
      if (!is_root) most_gradients = std::max(most_gradients, gradients);
    }
  }
  const std::size_t at_a_time = std::min<std::size_t>(2, units.size() - 1);
  if (options.reshard_after_forward) memory.gathered += at_a_time * most_values;
  memory.whole_gradients += 2 * most_gradients;
  return memory;
}

}  // namespace lockstep
