#include <lockstep/comm/revocation.hpp>

#include <chrono>
#include <cstring>
#include <exception>
#include <string_view>
#include <vector>

#include <lockstep/base/clock.hpp>
#include <lockstep/comm/message_port.hpp>

namespace lockstep {

Revocation::Revocation(ProcessGroup& group) {
  const std::string_view backend = group.backend();
  const bool works = group.size() > 1 && (backend == "mpi" || backend == "threads");
  group_ = works ? &group : nullptr;
  if (group_) word_ = MessagePort(group).irecv_end(tag);
}

Revocation::~Revocation() {
  try {
    word_.cancel();
  } catch (const std::exception&) {
    // The group has ended.
  }
}

void Revocation::revoke(const std::string& reason) noexcept {
  if (!group_) return;
  try {
    const Tensor text = Tensor::empty({static_cast<std::int64_t>(reason.size())}, DType::u8);
    std::memcpy(text.data(), reason.data(), reason.size());
    const auto send_to = [&](int peer) { return group_->isend(text, peer, tag); };
    std::vector<Work> sends;
    for (int peer = 0; peer < group_->size(); ++peer) {
      if (peer != group_->rank()) sends.push_back(send_to(peer));
    }
    const auto deadline = deadline_in(std::chrono::milliseconds(200));
    for (Work& send : sends) {
      const auto left = std::chrono::ceil<std::chrono::microseconds>(deadline - Clock::now());
      if (left.count() > 0) static_cast<void>(send.wait_for(left));
    }
    send_to(group_->rank()).wait();  // last, as it ends the group here
    word_.wait();
  } catch (const std::exception&) {
    // The group has ended already.
  }
}

}  // namespace lockstep
