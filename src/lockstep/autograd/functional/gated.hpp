#pragma once
#include <lockstep/autograd/operand.hpp>

namespace lockstep {

/// x, or w x where x <= 0 (He et al. 2015, arXiv:1502.01852); weight has one element, or one for
/// each channel, dimension 1 of x.
[[nodiscard]] Variable prelu(const Operand& x, const Operand& weight);

/// a sigmoid(b), where a and b are the halves of x along `dim` (Dauphin et al. 2017,
/// arXiv:1612.08083). Throws ShapeError for an odd extent.
[[nodiscard]] Variable glu(const Variable& x, int dim = -1);

}  // namespace lockstep
