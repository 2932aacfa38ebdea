#include <tensor/kokkos_launch.hpp>

#include <string>

#include <lockstep/tensor/dispatch.hpp>

namespace lockstep::bench {
namespace {

template <class Space>
bool launch(const Space& space, const Tensor& x, int launches) {
  if (is_host_space<Space>) return false;
  const auto out = flat_view<Space, float>(x);
  const std::string label = "launch";
  for (int i = 0; i < launches; ++i) {
    Kokkos::parallel_for(
        label, Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>>(space, 0, 1),
        KOKKOS_LAMBDA(std::int64_t at) { out(at) = 1.0F; });
  }
  return true;
}

}  // namespace

bool launch_by_kokkos(const Tensor& x, int launches) {
  bool done = false;
  dispatch(current_stream(x.device()),
           [&](const auto& space) { done = launch(space, x, launches); });
  return done;
}

}  // namespace lockstep::bench
