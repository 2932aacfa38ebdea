#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include <lockstep/autograd/variable.hpp>

namespace lockstep::dist_autograd {

class ContextPart;

/// A backward pass over all ranks that have a part in a context, from losses of this rank: see
/// backward(). Gradients travel by calls, each of which is answered when all that follows from it
/// is over; what goes back to the caller of a call from which nothing else follows is in the
/// answer.
void run_backward_pass(std::uint64_t context, std::span<const Variable> losses);
/// The same from the variables that came to this rank, whose gradients are there.
void continue_pass(const std::shared_ptr<ContextPart>& part);

}  // namespace lockstep::dist_autograd
