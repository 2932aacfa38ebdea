#include <lockstep/tensor/kernels/optim/master.hpp>

#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/half.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>

namespace lockstep {
namespace {

template <class Half, class Space>
void follow_kernel(const Space& space, const Tensor& parameter, const Tensor& master) {
  const auto written = flat_view<Space, const Half>(parameter);
  const auto kept = flat_view<Space, float>(master);
  for_each_element(
      "lockstep::follow_parameter", space, parameter.numel(), KOKKOS_LAMBDA(std::int64_t i) {
        const Half now = written(i);
        const float before = kept(i);
        kept(i) = Half(before).bits == now.bits ? before : static_cast<float>(now);
      });
}

}  // namespace

void follow_parameter(const Tensor& parameter, const Tensor& master) {
  if (!is_half(parameter.dtype()) || parameter.shape() != master.shape()) {
    throw ShapeError(
        "follow_parameter takes a bf16 or f16 tensor and an f32 tensor of one shape, not " +
        describe(parameter) + " and " + describe(master));
  }
  dispatch(current_stream(parameter.device()), [&](const auto& space) {
    if (parameter.dtype() == DType::bf16) {
      follow_kernel<BFloat16>(space, parameter, master);
    } else {
      follow_kernel<Float16>(space, parameter, master);
    }
  });
}

}  // namespace lockstep
