// Kernels on one device, by its own clock. benchmarks/pytorch/device_kernels.py is the counterpart;
// scripts/gpu/check.sh runs both.
//   tensor.device_bench cuda|sim ELEMENTS SIZE
//
// Prints lines "speed lockstep KERNEL DTYPE SIZE VALUE UNIT": copy, gelu, softmax and layer_norm of
// ELEMENTS numbers in rows of 1024, in bytes read and written per second; matrix products of SIZE;
// launches of a kernel a second, and by Kokkos' parallel_for alone.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/elementwise/activation.hpp>
#include <lockstep/tensor/kernels/linalg/matmul.hpp>
#include <lockstep/tensor/kernels/norm/norm.hpp>
#include <lockstep/tensor/kernels/reduce/softmax.hpp>
#include <lockstep/tensor/stream.hpp>
#include <lockstep/tensor/tensor.hpp>
#include <support/timing.hpp>
#include <tensor/kokkos_launch.hpp>

namespace lockstep {
namespace {

Device device_named(const std::string& name) {
  for (const DeviceType type : {DeviceType::sim, DeviceType::cuda}) {
    const Device device{type, 0};
    const std::string text = to_string(device);
    if (text.substr(0, text.find(':')) == name) return device;
  }
  throw InputError("no device is called " + name);
}

/// Milliseconds per call of f, the median of some rounds of several calls.
template <class F>
double milliseconds(Device device, const F& f) {
  const Stream& stream = current_stream(device);
  DeviceEvent begin(device, true), end(device, true);
  std::vector<double> rounds;
  for (int i = 0; i < 3; ++i) f();
  for (int round = 0; round < 9; ++round) {
    begin.record(stream);
    for (int i = 0; i < 10; ++i) f();
    end.record(stream);
    end.synchronize();
    rounds.push_back(end.milliseconds_since(begin) / 10);
  }
  return bench::median(rounds);
}

void print_speed(const char* kernel, DType dtype, std::int64_t size, double value,
                 const char* unit) {
  std::printf("speed lockstep %s %s %lld %.4g %s\n", kernel, std::string(name_of(dtype)).c_str(),
              static_cast<long long>(size), value, unit);
  std::fflush(stdout);
}

/// Calls f; prints a refusal of the device, and goes on with the others.
template <class F>
void attempt(const char* kernel, const F& f) {
  try {
    f();
  } catch (const ShapeError& error) {
    std::printf("refused: %s: %s\n", kernel, error.what());
  }
}

/// Uniform in [-1, 1). Products of equal numbers need less power, and run faster.
Tensor random_numbers(const Shape& shape, DType dtype, Device device) {
  std::vector<float> numbers(static_cast<std::size_t>(shape.numel()));
  std::uint32_t state = 1;
  for (float& x : numbers) {
    state = state * 1664525U + 1013904223U;  // Numerical Recipes' generator
    x = static_cast<float>(state >> 8U) * 0x1p-23F - 1.0F;
  }
  return Tensor::from(numbers, shape).to(dtype).to(device);
}

void measure_rows(Device device, DType dtype, std::int64_t elements) {
  const Shape shape{elements / 1024, 1024};
  const Tensor x = random_numbers(shape, dtype, device),
               y = Tensor::full(shape, 0.0, dtype, device);
  const auto bandwidth = [&](const char* kernel, const auto& f) {
    attempt(kernel, [&] {
      const double bytes = 2.0 * static_cast<double>(x.bytes());
      print_speed(kernel, dtype, elements, bytes / milliseconds(device, f) / 1e6, "GB/s");
    });
  };
  bandwidth("copy", [&] { y.copy_from(x, true); });
  bandwidth("gelu", [&] { gelu_forward(x, Gelu::tanh, y); });
  bandwidth("softmax", [&] { softmax_forward(x, 1, y); });
  const DType of_sums = dtype == DType::f64 ? dtype : DType::f32;
  const Tensor weight = Tensor::full({1024}, 1.0, of_sums, device),
               bias = Tensor::full({1024}, 0.0, of_sums, device),
               mean = Tensor::zeros({shape[0]}, DType::f32, device),
               inverse_std = Tensor::zeros({shape[0]}, DType::f32, device);
  bandwidth("layer_norm", [&] { layer_norm_forward(x, weight, bias, 1e-5, y, mean, inverse_std); });
}

void measure_product(Device device, DType dtype, std::int64_t size) {
  attempt("matmul", [&] {
    const Tensor a = random_numbers({size, size}, dtype, device),
                 b = random_numbers({size, size}, dtype, device),
                 y = Tensor::zeros({size, size}, dtype, device);
    const double n = static_cast<double>(size);
    print_speed("matmul", dtype, size,
                2 * n * n * n / milliseconds(device, [&] { matmul_forward(a, b, y); }) / 1e9,
                "TFLOP/s");
  });
}

/// The host's time to launch a kernel while the device is busy, and that of Kokkos alone.
void measure_launch(Device device) {
  const Tensor x = Tensor::zeros({1}, DType::f32, device);
  constexpr int launches = 1000;
  const auto measure = [&](const char* kernel, const auto& launch) {
    const double seconds = bench::fastest(0.2, launch);
    current_stream(device).synchronize();
    print_speed(kernel, DType::f32, launches, launches / seconds / 1e3, "thousand/s");
  };
  measure("launches", [&] {
    for (int i = 0; i < launches; ++i) x.fill(1.0);
  });
  if (bench::launch_by_kokkos(x, 1))
    measure("kokkos", [&] { static_cast<void>(bench::launch_by_kokkos(x, launches)); });
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: tensor.device_bench cuda|sim ELEMENTS SIZE\n", stderr);
    return 2;
  }
  try {
    const lockstep::Device device = lockstep::device_named(argv[1]);
    lockstep::measure_launch(device);
    for (const auto dtype : {lockstep::DType::f32, lockstep::DType::bf16}) {
      lockstep::measure_rows(device, dtype, std::atoll(argv[2]));
      lockstep::measure_product(device, dtype, std::atoll(argv[3]));
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
