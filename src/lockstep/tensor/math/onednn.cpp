#include <lockstep/tensor/math/onednn.hpp>

#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/storage.hpp>

#ifdef __SANITIZE_THREAD__
// ThreadSanitizer's own functions for memory ranges, which compilers call; no header declares them.
extern "C" void __tsan_read_range(void* address, unsigned long bytes);
extern "C" void __tsan_write_range(void* address, unsigned long bytes);
#endif

namespace lockstep::detail::onednn {

dnnl::engine& cpu() {
  static dnnl::engine engine = [] {
#ifdef __SANITIZE_THREAD__
    // Threads share primitives in a cache whose locks ThreadSanitizer does not see. The cache is
    // turned off, and created here, where ThreadSanitizer sees one thread go first.
    dnnl::set_primitive_cache_capacity(0);
#endif
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

dnnl::stream& stream() {
  thread_local dnnl::stream stream(cpu());
  return stream;
}

dnnl::primitive_attr scratchpad_is_ours() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

std::byte* workspace(std::size_t bytes) {
  thread_local IntrusivePtr<Storage> memory;
  if (!memory || memory->bytes() < bytes) {
    memory = {};  // free it first: otherwise ResNet-18's would leave 46 MiB behind
    memory = Storage::allocate_uncached(bytes);
  }
  return static_cast<std::byte*>(memory->data());
}

namespace {

#ifdef __SANITIZE_THREAD__
/// From the first element to the last one. oneDNN's own size counts the last row of a matrix as
/// long as its stride, which may be beyond the end of the tensor of an attention head.
std::size_t bytes_of(const dnnl_memory_desc_t& d) {
  const auto& blocks = d.format_desc.blocking;
  if (d.format_kind != dnnl_blocked || blocks.inner_nblks > 0) return dnnl_memory_desc_get_size(&d);
  dnnl_dim_t last = 0;
  for (int i = 0; i < d.ndims; ++i) {
    if (d.dims[i] == 0) return 0;
    last += (d.dims[i] - 1) * blocks.strides[i];
  }
  return static_cast<std::size_t>(last + 1) * dnnl_data_type_size(d.data_type);
}
#endif

/// oneDNN is not instrumented: this tells ThreadSanitizer of its accesses to tensors.
void tell_thread_sanitizer([[maybe_unused]] const dnnl_exec_arg_t& argument) {
#ifdef __SANITIZE_THREAD__
  void* data = nullptr;
  const dnnl_memory_desc_t* description = nullptr;
  if (dnnl_memory_get_data_handle(argument.memory, &data) != dnnl_success || !data ||
      dnnl_memory_get_memory_desc(argument.memory, &description) != dnnl_success) {
    return;
  }
  const std::size_t bytes = bytes_of(*description);
  switch (argument.arg) {
    case DNNL_ARG_DST:  // also DNNL_ARG_TO of reorders
    case DNNL_ARG_DIFF_SRC:
    case DNNL_ARG_DIFF_WEIGHTS:
    case DNNL_ARG_SCRATCHPAD:
      __tsan_write_range(data, bytes);
      break;
    default:
      __tsan_read_range(data, bytes);
  }
#endif
}

}  // namespace

bool computes_with(dnnl_cpu_isa_t instructions) noexcept {
  return (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & instructions) == instructions;
}

SignalsHeld::SignalsHeld() noexcept {
  sigset_t held;
  sigfillset(&held);
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP}) sigdelset(&held, fault);
  pthread_sigmask(SIG_SETMASK, &held, &before_);
}

SignalsHeld::~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

void execute(const dnnl::primitive& primitive, const dnnl_exec_arg_t* arguments, int count,
             const char* operation) {
  for (int i = 0; i < count; ++i) tell_thread_sanitizer(arguments[i]);
  const SignalsHeld held;
  const auto status = dnnl_primitive_execute(primitive.get(), stream().get(), count, arguments);
  if (status != dnnl_success) {
    throw Error(std::string(operation) + ": oneDNN failed to run a primitive (status " +
                std::to_string(status) + ")");
  }
}

}  // namespace lockstep::detail::onednn
