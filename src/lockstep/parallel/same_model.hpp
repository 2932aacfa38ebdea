#pragma once
#include <string>

#include <lockstep/comm/process_group.hpp>
#include <lockstep/nn/module.hpp>

namespace lockstep {

/// Checks that every rank built the same model: names, shapes, dtypes and order of parameters and
/// buffers, and which parameters are trained. `settings` is any text that must agree as well.
/// Collective. Throws the same Error on every rank, naming the first difference, when one differs.
void expect_same_model(ProcessGroup& group, const nn::Module& module, const std::string& settings);

/// Rank 0's parameters and buffers on every rank. Collective.
void broadcast_state(ProcessGroup& group, const nn::Module& module);

}  // namespace lockstep
