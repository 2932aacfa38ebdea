#include <lockstep/comm/message_port.hpp>

#include <lockstep/comm/arguments.hpp>
#include <lockstep/comm/operation.hpp>
#include <lockstep/comm/subgroup.hpp>

namespace lockstep {

Work MessagePort::irecv(int peer, int tag) const { return irecv(peer, tag, false); }

Work MessagePort::irecv_end(int tag) const { return irecv(any_source, tag, true); }

Work MessagePort::irecv(int peer, int tag, bool ends_group) const {
  if (group_->rank() < 0) refuse_outside(*group_, "recv");
  expect_peer({"recv", group_->rank(), group_->size()}, peer == any_source ? 0 : peer, tag);
  Operation operation;
  operation.kind = Operation::Kind::receive;
  operation.root = peer;
  operation.tag = tag;
  operation.ends_group = ends_group;
  return group_->launch(std::move(operation));
}

void MessagePort::enable_wakeup(std::chrono::microseconds awake, bool by_datagrams) const {
  if (group_->rank() < 0) refuse_outside(*group_, "enable_wakeup");
  group_->enable_wakeup(awake, by_datagrams);
}

}  // namespace lockstep
