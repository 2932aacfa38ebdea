#include <lockstep/rpc/call_hook.hpp>

#include <atomic>

namespace lockstep::rpc {
namespace {
std::atomic<CallHook*> the_hook = nullptr;
}  // namespace

void set_call_hook(CallHook* hook) noexcept { the_hook.store(hook); }
CallHook* call_hook() noexcept { return the_hook.load(std::memory_order_acquire); }

}  // namespace lockstep::rpc
