#include <lockstep/tensor/math/device_math.hpp>

namespace lockstep::math {

DeviceMath* cuda_math() noexcept { return nullptr; }

}  // namespace lockstep::math
