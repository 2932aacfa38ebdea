#include <lockstep/tensor/math/onednn.hpp>

#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/storage.hpp>

namespace lockstep::detail::onednn {

dnnl::engine& cpu() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
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
    memory = {};  // back to the system first: ResNet-18's would leave 46 MiB behind otherwise
    memory = Storage::allocate_uncached(bytes);
  }
  return static_cast<std::byte*>(memory->data());
}

void execute(const dnnl::primitive& primitive, const dnnl_exec_arg_t* arguments, int count,
             const char* operation) {
  const auto status = dnnl_primitive_execute(primitive.get(), stream().get(), count, arguments);
  if (status != dnnl_success) {
    throw Error(std::string(operation) + ": oneDNN failed to run a primitive (status " +
                std::to_string(status) + ")");
  }
}

}  // namespace lockstep::detail::onednn
