#pragma once
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/tensor/kernels/loss/loss.hpp>

namespace lockstep::detail {

/// The losses themselves, their mean or their sum.
inline Variable reduced_by(const Variable& losses, Reduction reduction) {
  switch (reduction) {
    case Reduction::none:
      break;
    case Reduction::mean:
      return mean(losses);
    case Reduction::sum:
      return sum(losses);
  }
  return losses;
}

}  // namespace lockstep::detail
