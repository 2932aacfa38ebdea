// A user-defined kernel over a tensor: the one header that includes Kokkos, and its component.
#include <cstdio>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/stream.hpp>

struct Square {
  template <class Space>
  void operator()(const Space& space) const {
    const auto x = lockstep::view<Space, float, 1>(tensor);
    Kokkos::parallel_for(
        "square", Kokkos::RangePolicy<Space>(space, 0, tensor.numel()),
        KOKKOS_LAMBDA(int i) { x(i) *= x(i); });
  }
  lockstep::Tensor tensor;
};

int main() {
  const auto tensor = lockstep::Tensor::from(std::vector<float>{1, 2, 3}, {3});
  lockstep::dispatch(lockstep::current_stream(), Square{tensor});
  const auto squares = tensor.to_vector<float>();
  std::printf("%g %g %g\n", squares[0], squares[1], squares[2]);
}
