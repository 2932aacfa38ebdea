#include <lockstep/rpc/references.hpp>

#include <fmt/format.h>

#include <utility>

#include <lockstep/base/log.hpp>
#include <lockstep/rpc/agent.hpp>

namespace lockstep::rpc {

namespace {

const IntrusivePtr<ValueState<void>>& nothing_to_wait_for() {
  static const auto* const done = [] {  // references may outlive main()
    auto* state = new IntrusivePtr<ValueState<void>>(ValueState<void>::make());
    static_cast<void>((*state)->claim());
    (*state)->value.emplace();
    (*state)->finish();
    return state;
  }();
  return *done;
}

}  // namespace

ReferenceHandle::~ReferenceHandle() { references_.drop(*this); }

Agent& ReferenceHandle::agent() const noexcept { return references_.agent(); }

std::shared_ptr<ReferenceHandle> ReferenceHandle::adopt(std::shared_ptr<void> object,
                                                        const ObjectType& type) {
  return Agent::current().references().adopt(std::move(object), type);
}

const WorkerInfo& ReferenceHandle::owner_info() const {
  return agent().workers().all()[static_cast<std::size_t>(owner_)];
}

bool ReferenceHandle::is_owner() const noexcept { return owner_ == agent().id(); }

bool ReferenceHandle::is_confirmed() const { return references_.is_confirmed(*this); }

void ReferenceHandle::expect_held() const { references_.expect_held(*this); }

ReferenceEntry ReferenceHandle::give(int to) const { return references_.give(*this, to); }

std::shared_ptr<void> ReferenceHandle::local_object() const {
  if (!is_owner()) {
    throw Error(
        fmt::format("{}: local_value() was called on a reference whose object is on rank {}: use "
                    "to_here(), or call a method",
                    agent().workers().own_name(), owner_));
  }
  const auto place = references_.find(reference_, Agent::default_deadline());
  place->ready->wait();
  place->expect_type(type_);
  return place->object;
}

References::References(Agent& agent) : agent_(agent) {}

References::~References() { clear(); }

std::uint64_t References::draw() noexcept {
  constexpr unsigned rank_shift = 40;
  return (static_cast<std::uint64_t>(agent_.id()) + 1) << rank_shift | ++drawn_;
}

// ---- shares

std::shared_ptr<ReferenceHandle> References::create(int owner, std::uint64_t type) {
  const std::uint64_t reference = draw(), fork = draw();
  auto handle = std::make_shared<ReferenceHandle>(*this, reference, fork, type, owner);
  const std::lock_guard lock(mutex_);
  users_.emplace(fork, User{.reference = reference, .owner = owner});
  return handle;
}

void References::forget(const ReferenceHandle& handle) noexcept {
  const std::lock_guard lock(mutex_);
  users_.erase(handle.fork());
}

std::shared_ptr<ReferenceHandle> References::settled(std::shared_ptr<ReferenceHandle> handle) {
  if (handle->owner() != agent_.id()) return handle;
  auto own =
      std::make_shared<ReferenceHandle>(*this, handle->reference(), 0, handle->type(), agent_.id());
  const std::lock_guard lock(mutex_);
  OwnedObject& place = place_of(handle->reference());
  ++place.handles;
  place.forks.erase(handle->fork());
  users_.erase(handle->fork());
  return own;
}

std::shared_ptr<ReferenceHandle> References::adopt(std::shared_ptr<void> object,
                                                   const ObjectType& type) {
  if (!object) throw InputError("an RRef was made from a null pointer");
  const std::uint64_t reference = draw();
  auto handle = std::make_shared<ReferenceHandle>(*this, reference, 0, type.number, agent_.id());
  auto place = std::make_shared<OwnedObject>();
  place->object = std::move(object);
  place->type = &type;
  place->ready = nothing_to_wait_for();
  place->begun = true;
  place->handles = 1;
  const std::lock_guard lock(mutex_);
  objects_.emplace(reference, std::move(place));
  return handle;
}

ReferenceEntry References::give(const ReferenceHandle& handle, int to) {
  const std::uint64_t fork = draw();
  const ReferenceEntry entry{.reference = handle.reference(),
                             .fork = fork,
                             .type = handle.type(),
                             .owner = handle.owner(),
                             .parent = agent_.id()};
  const std::lock_guard lock(mutex_);
  if (handle.fork() == 0) {
    place_of(handle.reference()).forks.emplace(fork, to);
  } else {
    ++users_.at(handle.fork()).given;
    given_.emplace(fork, Given{.fork = handle.fork(), .to = to});
  }
  return entry;
}

void References::take_back(const ReferenceEntry& entry) noexcept {
  Outbox outbox;
  std::shared_ptr<OwnedObject> garbage;
  {
    const std::lock_guard lock(mutex_);
    if (entry.owner == agent_.id() && !given_.contains(entry.fork)) {
      place_of(entry.reference).forks.erase(entry.fork);
      garbage = remove_if_unused(entry.reference);
    } else {
      accepted(entry.fork, outbox);
    }
  }
  send(outbox);
}

void References::take_over(IncomingMessage& message) {
  Outbox outbox;
  const auto is_rank = [&](std::int32_t r) { return r >= 0 && r < agent_.workers().size(); };
  for (const ReferenceEntry& entry : message.references()) {
    if (!is_rank(entry.owner) || !is_rank(entry.parent)) {
      throw MalformedMessage(
          "a message was refused: it carries a reference of a worker that does not exist");
    }
  }
  auto& handles = message.handles();
  handles.reserve(message.references().size());
  for (const ReferenceEntry& entry : message.references()) {
    const bool is_owner = entry.owner == agent_.id();
    handles.push_back(std::make_shared<ReferenceHandle>(
        *this, entry.reference, is_owner ? 0 : entry.fork, entry.type, entry.owner));
    const std::lock_guard lock(mutex_);
    // sent to this rank itself: give() has entered the fork
    if (is_owner && entry.parent == agent_.id()) {
      OwnedObject& place = place_of(entry.reference);
      ++place.handles;
      if (place.forks.erase(entry.fork) == 0) accepted(entry.fork, outbox);
    } else if (is_owner) {
      ++place_of(entry.reference).handles;
      outbox.messages.push_back({.action = Action::accept, .to = entry.parent, .fork = entry.fork});
    } else if (entry.owner == entry.parent) {
      users_.emplace(entry.fork,
                     User{.reference = entry.reference, .owner = entry.owner, .confirmed = true});
    } else {
      users_.emplace(
          entry.fork,
          User{.reference = entry.reference, .owner = entry.owner, .parent = entry.parent});
      outbox.messages.push_back({.action = Action::add,
                                 .to = entry.owner,
                                 .reference = entry.reference,
                                 .fork = entry.fork});
    }
  }
  send(outbox);
}

bool References::is_confirmed(const ReferenceHandle& handle) const {
  if (handle.fork() == 0) return true;
  const std::lock_guard lock(mutex_);
  const auto user = users_.find(handle.fork());
  return user != users_.end() && user->second.confirmed;
}

void References::expect_held(const ReferenceHandle& handle) const {
  agent_.expect_open();
  const std::lock_guard lock(mutex_);
  if (handle.fork() == 0 ? objects_.contains(handle.reference()) : users_.contains(handle.fork())) {
    return;
  }
  throw Error("a remote reference was used after shutdown() had released it");
}

void References::drop(const ReferenceHandle& handle) noexcept {
  Outbox outbox;
  std::shared_ptr<OwnedObject> garbage;
  {
    const std::lock_guard lock(mutex_);
    if (handle.fork() == 0) {
      const auto place = objects_.find(handle.reference());
      if (place == objects_.end()) return;
      if (place->second->handles > 0) --place->second->handles;
      garbage = remove_if_unused(place);
    } else {
      const auto user = users_.find(handle.fork());
      if (user == users_.end()) return;
      user->second.held = false;
      end_if_possible(handle.fork(), outbox);
    }
  }
  send(outbox);
}

void References::end_if_possible(std::uint64_t fork, Outbox& outbox) {
  const auto user = users_.find(fork);
  if (user == users_.end()) return;
  const User& its = user->second;
  if (its.held || !its.confirmed || its.given > 0) return;
  outbox.messages.push_back(
      {.action = Action::end, .to = its.owner, .reference = its.reference, .fork = fork});
  users_.erase(user);
}

void References::accepted(std::uint64_t fork, Outbox& outbox) {
  const auto given = given_.find(fork);
  if (given == given_.end()) return;
  const std::uint64_t by = given->second.fork;
  given_.erase(given);
  if (const auto user = users_.find(by); user != users_.end()) {
    --user->second.given;
    end_if_possible(by, outbox);
  }
}

// ---- objects

OwnedObject& References::place_of(std::uint64_t reference) {
  auto& place = objects_[reference];
  if (!place) place = std::make_shared<OwnedObject>();
  return *place;
}

std::shared_ptr<OwnedObject> References::remove_if_unused(std::uint64_t reference) {
  return remove_if_unused(objects_.find(reference));
}

std::shared_ptr<OwnedObject> References::remove_if_unused(Objects::iterator found) {
  if (found == objects_.end()) return nullptr;
  const OwnedObject& place = *found->second;
  if (!place.begun || !place.ready->done() || place.handles > 0 || !place.forks.empty()) {
    return nullptr;
  }
  auto garbage = std::move(found->second);
  objects_.erase(found);
  return garbage;
}

void References::begin(std::uint64_t reference, std::uint64_t fork, int creator,
                       Clock::time_point deadline) {
  Outbox outbox;
  {
    const std::lock_guard lock(mutex_);
    OwnedObject& place = place_of(reference);
    place.begun = true;
    place.deadline = deadline;
    place.forks.emplace(fork, creator);
    outbox.messages.push_back({.action = Action::confirm, .to = creator, .fork = fork});
  }
  send(outbox);
}

void References::complete(std::uint64_t reference, std::shared_ptr<void> object,
                          const ObjectType& type) {
  std::shared_ptr<OwnedObject> place;
  {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(reference);
    if (found == objects_.end()) return;  // everything was cleared
    place = found->second;
    place->object = std::move(object);
    place->type = &type;
  }
  if (place->ready->claim()) {
    place->ready->value.emplace();
    place->ready->finish();
  }
  std::shared_ptr<OwnedObject> garbage;
  const std::lock_guard lock(mutex_);
  garbage = remove_if_unused(reference);
}

void References::complete(std::uint64_t reference, std::exception_ptr failure) {
  std::shared_ptr<OwnedObject> place, garbage;
  {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(reference);
    if (found == objects_.end()) return;
    place = found->second;
  }
  if (place->ready->claim()) place->ready->fail(std::move(failure));
  const std::lock_guard lock(mutex_);
  garbage = remove_if_unused(reference);
}

std::shared_ptr<OwnedObject> References::find(std::uint64_t reference, Clock::time_point deadline) {
  std::shared_ptr<OwnedObject> place;
  {
    const std::lock_guard lock(mutex_);
    place_of(reference);
    place = objects_.at(reference);
    if (place->begun) return place;
  }
  if (place->ready->wait_until(deadline)) return place;
  std::shared_ptr<OwnedObject> garbage;
  const std::lock_guard lock(mutex_);
  if (place->begun) return place;
  if (place->handles == 0 && place->forks.empty()) {
    const auto found = objects_.find(reference);
    if (found != objects_.end()) {
      garbage = std::move(found->second);
      objects_.erase(found);
    }
  }
  throw Error("there is no such object here: it has been deleted, or its creation has not started");
}

// ---- messages

void References::handle(IncomingMessage& message) {
  const Head& head = message.head();
  Outbox outbox;
  std::shared_ptr<OwnedObject> garbage;
  {
    const std::lock_guard lock(mutex_);
    if (cleared_) return;
    switch (static_cast<Action>(head.action)) {
      case Action::add:
        place_of(head.reference).forks.emplace(head.fork, message.from());
        outbox.messages.push_back(
            {.action = Action::confirm, .to = message.from(), .fork = head.fork});
        break;
      case Action::confirm: {
        const auto user = users_.find(head.fork);
        if (user == users_.end()) break;
        user->second.confirmed = true;
        if (const int parent = std::exchange(user->second.parent, -1); parent >= 0) {
          outbox.messages.push_back({.action = Action::accept, .to = parent, .fork = head.fork});
        }
        end_if_possible(head.fork, outbox);
        break;
      }
      case Action::accept:
        accepted(head.fork, outbox);
        break;
      case Action::end: {
        const auto found = objects_.find(head.reference);
        if (found == objects_.end()) break;
        found->second->forks.erase(head.fork);
        garbage = remove_if_unused(head.reference);
        break;
      }
    }
  }
  send(outbox);
}

void References::send(const Outbox& outbox) noexcept {
  for (const Control& control : outbox.messages) {
    try {
      if (delayed_) {
        delayed_->add([this, control] { send(control); });
      } else {
        send(control);
      }
    } catch (const std::exception& error) {
      // The group has failed or is shut down: the counts do not matter any more.
      log(LogLevel::debug, fmt::format("{}: a reference's message was not sent: {}",
                                       agent_.workers().own_name(), error.what()));
    }
  }
}

void References::send(const Control& control) {
  OutgoingMessage message(Kind::control, agent_.limits());
  message.head().action = static_cast<std::uint8_t>(control.action);
  message.head().reference = control.reference;
  message.head().fork = control.fork;
  agent_.send_control(message, control.to);
}

void References::delay_messages(std::uint64_t seed, std::chrono::microseconds longest) {
  delayed_ =
      std::make_unique<DelayedMessages>(seed + static_cast<std::uint64_t>(agent_.id()), longest,
                                        [this] { Agent::exchange_current(&agent_); });
}

// ---- shutdown

ReferenceCounts References::counts() const {
  ReferenceCounts counts;
  {
    const std::lock_guard lock(mutex_);
    counts.owned = static_cast<std::int64_t>(objects_.size());
    const auto now = Clock::now();
    for (const auto& [reference, place] : objects_) {
      counts.forks += static_cast<std::int64_t>(place->forks.size());
      const bool is_made = place->begun && !place->ready->done() && now < place->deadline;
      counts.in_the_making += is_made ? 1 : 0;
    }
    counts.users = static_cast<std::int64_t>(users_.size());
    counts.given = static_cast<std::int64_t>(given_.size());
  }
  counts.delayed = delayed_ ? static_cast<std::int64_t>(delayed_->size()) : 0;
  return counts;
}

std::int64_t References::held() const {
  std::int64_t held = 0;
  const std::lock_guard lock(mutex_);
  for (const auto& [fork, user] : users_) held += user.held ? 1 : 0;
  for (const auto& [reference, place] : objects_) held += place->handles;
  return held;
}

void References::take_all_back() {
  Outbox outbox;
  std::vector<std::shared_ptr<OwnedObject>> garbage;
  {
    const std::lock_guard lock(mutex_);
    std::vector<std::uint64_t> forks;
    forks.reserve(users_.size());
    for (auto& [fork, user] : users_) {
      user.held = false;
      forks.push_back(fork);
    }
    for (const std::uint64_t fork : forks) end_if_possible(fork, outbox);
    std::vector<std::uint64_t> own;
    for (auto& [reference, place] : objects_) {
      place->handles = 0;
      own.push_back(reference);
    }
    for (const std::uint64_t reference : own) garbage.push_back(remove_if_unused(reference));
  }
  send(outbox);
}

std::vector<std::string> References::left() const {
  std::vector<std::string> left;
  const std::lock_guard lock(mutex_);
  for (const auto& [reference, place] : objects_) {
    std::string who;
    if (place->handles > 0) who = fmt::format("{} RRefs of its owner", place->handles);
    for (const auto& [fork, rank] : place->forks) {
      const std::string& name = agent_.workers().name(rank);
      who += fmt::format("{}worker {} (rank {})", who.empty() ? "" : ", ", name, rank);
    }
    left.push_back(fmt::format("object {:#x} of worker {}: held by {}", reference,
                               agent_.workers().name(agent_.id()),
                               who.empty() ? "no rank, but not completed" : who));
  }
  return left;
}

void References::clear() noexcept {
  if (delayed_) delayed_->stop();
  Objects objects;  // destroyed outside the lock: destructors may call back
  {
    const std::lock_guard lock(mutex_);
    cleared_ = true;
    objects.swap(objects_);
    users_.clear();
    given_.clear();
  }
  for (const auto& [reference, place] : objects) {
    if (place->ready->claim()) {
      place->ready->fail(std::make_exception_ptr(Error("the worker was shut down")));
    }
  }
}

}  // namespace lockstep::rpc
