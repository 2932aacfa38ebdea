#pragma once

namespace lockstep::scaling {

/// The expected maximum of n independent standard normal numbers: 0, 0.5642, 1.0294 (4), 1.4236
/// (8). By numerical integration of x d(Phi(x)^n); H. A. David, "Order statistics", section 3.1.
/// `ranks` is at least 1. For ranks whose compute times in a step scatter with standard deviation
/// s, the last one is later than the mean by s times this.
[[nodiscard]] double expected_maximum(int ranks);

}  // namespace lockstep::scaling
