#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include <lockstep/autograd/variable.hpp>

namespace lockstep::dist_autograd {

class ContextPart;

/// A backward pass over all ranks that have a part in a context, from losses of this rank: see
/// backward(). Gradients travel by calls. Each call is answered when all work that follows from it
/// has completed; gradients for the caller of a call without further work travel in the answer.
void run_backward_pass(std::uint64_t context, std::span<const Variable> losses);
/// The same, starting from the variables that arrived on this rank and whose gradients are known.
void continue_pass(const std::shared_ptr<ContextPart>& part);

}  // namespace lockstep::dist_autograd
