#include <lockstep/tensor/kernels/host_task.hpp>

#include <algorithm>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/math/device_math.hpp>

namespace lockstep::detail {

namespace {

const Tensor& first_of(std::initializer_list<const Tensor*> tensors) {
  return **std::ranges::find_if(tensors, [](const Tensor* t) { return t->defined(); });
}

}  // namespace

Device common_device(const char* name, std::initializer_list<const Tensor*> tensors) {
  const Tensor& first = first_of(tensors);
  for (const Tensor* const t : tensors) {
    if (!t->defined() || t->device() == first.device()) continue;
    throw ShapeError(std::string(name) + " on " + to_string(first.device()) + " meets " +
                     describe(*t) +
                     ": its tensors must be on one device; move this one there with "
                     "to()");
  }
  return first.device();
}

Device device_of_task(const char* name, std::initializer_list<const Tensor*> tensors) {
  const Device device = common_device(name, tensors);
  if (device.type == DeviceType::cuda || math::device_math(device) != nullptr) {
    throw ShapeError(std::string(name) + " has no kernel for a GPU, and got " +
                     describe(first_of(tensors)) + ": move its tensors to the host with to()");
  }
  return device;
}

}  // namespace lockstep::detail
