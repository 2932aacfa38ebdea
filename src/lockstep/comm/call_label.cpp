#include <lockstep/comm/call_label.hpp>

namespace lockstep {
namespace {

thread_local const CallLabel* innermost = nullptr;

}  // namespace

CallLabel::CallLabel(const char* what, int number) noexcept
    : what_(what), number_(number), outer_(innermost) {
  innermost = this;
}

CallLabel::~CallLabel() { innermost = outer_; }

const CallLabel* CallLabel::current() noexcept { return innermost; }

}  // namespace lockstep
