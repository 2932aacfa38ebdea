#pragma once
#include <string>

#include <lockstep/comm/process_group.hpp>
#include <lockstep/nn/module.hpp>

namespace lockstep {

/// Checks that every rank built the same model: names, shapes, dtypes and order of parameters and
/// buffers, and the set of trained parameters. `settings` is any text that must agree as well.
/// Collective. On a difference throws the same Error on every rank, naming the first one.
void expect_same_model(ProcessGroup& group, const nn::Module& module, const std::string& settings);

/// Broadcasts rank 0's parameters and buffers. Collective.
void broadcast_state(ProcessGroup& group, const nn::Module& module);

}  // namespace lockstep
