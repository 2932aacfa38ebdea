#include <lockstep/base/descriptor.hpp>

#include <unistd.h>

namespace lockstep {

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

}  // namespace lockstep
