#include <lockstep/tensor/kernels/host_task.hpp>

#include <string>

#include <lockstep/base/error.hpp>

namespace lockstep::detail {

Device device_of_task(const char* name, std::initializer_list<const Tensor*> tensors) {
  const Tensor* first = nullptr;
  for (const Tensor* const t : tensors) {
    if (!t->defined()) continue;
    if (!first) first = t;
    if (t->device() == first->device()) continue;
    throw ShapeError(std::string(name) + " on " + to_string(first->device()) + " meets " +
                     describe(*t) +
                     ": its tensors must be on one device; move this one there with "
                     "to()");
  }
  if (first->device().type == DeviceType::cuda) {
    throw ShapeError(std::string(name) + " has no kernel for a GPU, and got " + describe(*first) +
                     ": move its tensors to the host with to()");
  }
  return first->device();
}

}  // namespace lockstep::detail
