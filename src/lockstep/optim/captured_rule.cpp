#include <lockstep/optim/captured_rule.hpp>

#include <cstring>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/device_graph.hpp>

namespace lockstep::optim {

bool CapturedRule::keep(const void* rule, std::size_t bytes, const std::type_info& type) {
  if (!type_) {
    const DeviceGraph::Numbers numbers = graph_->numbers(bytes);
    device_ = numbers.device;
    host_ = numbers.host;
    type_ = &type;
    return false;
  }
  if (type != *type_) {
    throw Error(
        "the captured step of an optimizer takes other numbers, but not an option that changes its "
        "formula, such as nesterov or centered: capture it again");
  }
  std::memcpy(host_, rule, bytes);
  return true;
}

}  // namespace lockstep::optim
