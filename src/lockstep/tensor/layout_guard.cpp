#include <lockstep/tensor/layout_guard.hpp>

#include <utility>

namespace lockstep {
namespace {

thread_local constinit ImageLayout current_image_layout = ImageLayout::automatic;

}  // namespace

ImageLayout image_layout() noexcept { return current_image_layout; }

LayoutGuard::LayoutGuard(ImageLayout layout) noexcept
    : before_(std::exchange(current_image_layout, layout)) {}

LayoutGuard::~LayoutGuard() { current_image_layout = before_; }

}  // namespace lockstep
