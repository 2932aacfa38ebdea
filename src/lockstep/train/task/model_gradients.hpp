#pragma once
#include <cstdint>
#include <string>

namespace lockstep::train {

class Task;

/// Result of a check of a task's gradients: a table, one parameter per line, and the verdict.
struct ModelGradients {
  std::string table;
  bool ok = true;
};

/// Checks the gradients of the task's model and loss on the first `samples` training samples, in
/// two steps. First, in double precision against central differences (check_gradients explains the
/// error model). Second, the gradients of the ordinary f32 model, with its fast kernels, against
/// the double precision ones. The f32 gradient g of a parameter passes if it is within 1e-3 of the
/// other's norm, plus 1e-5 of the largest parameter's norm per element, for gradients that vanish.
/// Local; communicates with no rank. Throws InputError if data and model do not fit.
[[nodiscard]] ModelGradients check_model_gradients(const Task& task, std::uint64_t seed,
                                                   std::int64_t samples = 3);

}  // namespace lockstep::train
