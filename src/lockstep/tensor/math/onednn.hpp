#pragma once
#include <csignal>

#include <array>
#include <cstddef>

#include <dnnl.hpp>

// Shared by the users of oneDNN's primitives: convolutions and matrix products.

namespace lockstep::detail::onednn {

/// The one CPU.
[[nodiscard]] dnnl::engine& cpu();
/// This thread's.
[[nodiscard]] dnnl::stream& stream();

/// For primitives that take their scratch memory from workspace().
[[nodiscard]] dnnl::primitive_attr scratchpad_is_ours();

/// This thread's scratch memory for running primitives, shared by all of them: it grows to the
/// largest one's need. Contents do not last from call to call. Aligned to 64 bytes.
[[nodiscard]] std::byte* workspace(std::size_t bytes);

/// Whether oneDNN computes with these instructions: the processor has them and the environment
/// (ONEDNN_MAX_CPU_ISA) allows them.
[[nodiscard]] bool computes_with(dnnl_cpu_isa_t instructions) noexcept;

/// While it lives only fault signals are delivered to this thread: oneDNN 2.6's products, for AVX2
/// and for AVX-512, point the stack pointer into their own memory, and a handler's frame would
/// overwrite the heap.
class SignalsHeld {
 public:
  SignalsHeld() noexcept;
  ~SignalsHeld();
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  sigset_t before_{};
};

/// Runs a primitive through the C interface: the C++ one builds a hash map for its arguments.
/// Throws Error naming `operation`.
void execute(const dnnl::primitive& primitive, const dnnl_exec_arg_t* arguments, int count,
             const char* operation);

template <std::size_t N>
void execute(const dnnl::primitive& primitive, const std::array<dnnl_exec_arg_t, N>& arguments,
             const char* operation) {
  execute(primitive, arguments.data(), static_cast<int>(N), operation);
}

}  // namespace lockstep::detail::onednn
